"""What a developer writes wrong is refused where it is written, with what to write."""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import os
import subprocess
import sys
import types
from datetime import datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, TypedDict, TypeVar

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import SynchronousOnlyOperation

import effects
from effects.declarations import effect
from effects.models import Approval, Execution
from effects.testing import provider_says
from effects.vocabulary import exceptions
from tests.core.declared import Approved, ChargePayload, Plain

ROOT = Path(__file__).parents[2]
PAYLOAD = ChargePayload("c", 1)


async def coroutine(self: Any, *args: Any) -> Any:
    """Stand for a hook that somebody wrote as `async def`."""


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"request_timeout": 10}, r"request_timeout = 10; write request_timeout = timedelta\(seconds=10\)"),
        ({"lookup": "eventual"}, r"write lookup = effects\.Eventual\(\)"),
        ({"deduplicates": 86400}, r"write deduplicates = effects\.Deduplication\("),
        ({"risk": "low"}, r"write risk = effects\.Risk\.HIGH"),
        ({"in_doubt": "abandon"}, r"write in_doubt = effects\.InDoubt"),
        ({"retry": 3}, r"write retry = effects\.Retry\("),
        ({"aliases": "bank.old"}, r"write aliases = \('payments\.pay_back',\)"),
        ({"payload_version": True}, "write payload_version = 1"),
        ({"repeatable": "no"}, "repeatable is True or False, not 'no'"),
        ({"send": coroutine}, "make it a plain def, not async"),
        ({"settled": coroutine}, "workers call settled, too"),
    ],
)
def test_a_declaration_of_the_wrong_kind_is_refused(attributes: dict[str, Any], words: str) -> None:
    """The message names the class and the attribute, and shows what to write."""
    body = {"operation": "bank.wrong", "provider": "bank", "send": lambda self, context, permit: None, **attributes}
    with pytest.raises(exceptions.EffectDefinitionError, match=f"Wrong: .*{words}"):
        effects.register(type("Wrong", (effects.Effect,), body))


class Coin(Enum):
    """Two of its values are written alike."""

    TEXT = "1"
    NUMBER = Decimal(1)


class Rate(Enum):
    """Its value is a float."""

    HALF = 0.5


class Typed(TypedDict):
    """A dict of declared fields, which Python cannot tell from another dict."""

    amount: int


@dataclasses.dataclass
class Renamed:
    """Its constructor knows its field by another name."""

    amount: int

    def __init__(self, cents: int) -> None:
        self.amount = cents


@dataclasses.dataclass
class Extra:
    """Its constructor needs more than is kept."""

    amount: int

    def __init__(self, amount: int, rate: int) -> None:
        self.amount = amount * rate


@dataclasses.dataclass(init=False)
class Bare:
    """Its constructor takes nothing."""

    amount: int = 0


@dataclasses.dataclass
class Shape(abc.ABC):
    """It has no instances of its own."""

    amount: int

    @abc.abstractmethod
    def name(self) -> str:
        """Return it."""


@dataclasses.dataclass
class Open:
    """Its constructor takes its fields, and more."""

    amount: int

    def __init__(self, **values: Any) -> None:
        self.amount = values["amount"]


def payload_of(hint: Any, **defaults: Any) -> type[Any]:
    return dataclasses.make_dataclass("Payload", [("field", hint, dataclasses.field(**defaults))], frozen=True)


def registered(payload: Any, **attributes: Any) -> None:
    body = {"operation": "bank.typed", "provider": "bank", "send": lambda self, context, permit: None, **attributes}
    try:
        effects.register(
            types.new_class("Typed", (effects.Effect[payload],), exec_body=lambda space: space.update(body))
        )
    finally:
        effect._registry.pop("bank.typed", None)


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (float, "integer minor units"),
        (set[str], r"sorted\("),
        (timedelta, "whole seconds"),
        (bytes, "its name and its digest"),
        (time, "an aware datetime"),
        (float | None, "integer minor units"),
        (list[dict[str, timedelta]], r"\$\.field\[\]\{\}: timedelta"),
        (tuple[int, frozenset[int]], r"sorted\("),
        (NewType("Price", float), "integer minor units"),
        (Annotated[complex, "ratio"], "not JSON"),
        (payload_of(bytearray), r"\$\.field\.field: bytearray"),
        (dict[int, str], r"write dict\[str, str\]"),
        (str | Decimal, "put str last, after Decimal"),
        (Coin, "both written as"),
        (Rate, "0.5 of Rate"),
        (Literal["a", b"b"], "of Literal"),
        (User, "pass its primary key"),
        (TypeVar("T"), "use str, int"),
        (dataclasses.InitVar[int], "make it a field"),
        ("Nowhere", "import what they name"),
        (type, "use str, int"),
    ],
    ids=str,
)
def test_a_payload_that_would_not_come_back_is_refused_where_it_is_declared(hint: Any, words: str) -> None:
    """Not at its first call, nor in a worker: with its place, and what to write."""
    with pytest.raises(exceptions.EffectDefinitionError, match=words):
        registered(payload_of(hint))


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (Renamed, r"\$: Renamed\(\) does not take its own fields"),
        (Extra, "'rate'"),
        (Bare, "does not take its own fields"),
        (Shape, r"\$: Shape is abstract"),
        (payload_of(list[Shape | None]), r"\$\.field\[\]: Shape is abstract"),
    ],
    ids=str,
)
def test_a_class_that_cannot_be_made_of_its_fields_is_refused(payload: Any, words: str) -> None:
    """A worker is given the fields alone, and has to make the payload of them."""
    with pytest.raises(exceptions.EffectDefinitionError, match=words):
        registered(payload)


@pytest.mark.parametrize("payload", [float, Typed, User, set, payload_of(datetime) | None], ids=str)
def test_a_payload_itself_is_what_json_can_fill(payload: Any) -> None:
    """A dataclass, or a dict; a mapping that no isinstance() knows is refused too."""
    with pytest.raises(exceptions.EffectDefinitionError, match="would not come back"):
        registered(payload)


def test_what_can_be_filled_registers() -> None:
    """Also a class of itself, and what only an output may hold."""

    @dataclasses.dataclass
    class Node:
        """A tree."""

        children: list[Any]
        kind: Literal["leaf", 1] | None = None
        either: Decimal | datetime | str = ""
        rest: object = None
        derived: float = dataclasses.field(init=False, default=0.5)

    Node.__annotations__["children"] = list[Node]
    registered(Node)
    registered(Open)
    registered(dataclasses.make_dataclass("Strict", [("amount", int)], kw_only=True, slots=True))
    registered(dict, output_type=payload_of(float | Rate))
    registered(dict, output_type=payload_of(dict[str, Any]))
    with pytest.raises(exceptions.EffectDefinitionError, match="output_type would not come back"):
        registered(dict, output_type=payload_of(timedelta))


@pytest.mark.parametrize(
    "make",
    [
        lambda: effects.ApprovalRule("bank.approve", decide_within=5),
        lambda: effects.ApprovalRule("bank.approve", quorum="2"),
        lambda: effects.ApprovalRule("bank.approve", not_before=datetime(2030, 1, 1)),
        lambda: effects.Retry(attempts="3"),
        lambda: effects.Retry(first=1),
        lambda: effects.Deduplication(lifetime=86400),
        lambda: effects.Eventual(quiet=300),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(make: Any) -> None:
    """A bare number has no unit."""
    with pytest.raises(ValueError, match=r"ApprovalRule|Retry|Deduplication|Eventual"):
        make()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "approval",
            "bank.ok",
            r"approval\(\) of bank\.plain returned 'bank\.ok': return effects\.ApprovalRule",
        ),
        ("describe", "A charge", r"describe\(\) returned 'A charge': return effects\.Summary"),
    ],
)
def test_what_a_hook_returns_is_looked_at(monkeypatch: Any, name: str, value: str, words: str) -> None:
    """Nothing is recorded, and the message says what to return."""
    monkeypatch.setattr(Plain, name, lambda self, context: value)
    with pytest.raises(exceptions.EffectDefinitionError, match=words):
        effects.perform(Plain, payload=PAYLOAD, key="a")
    assert not Execution.objects.exists()


def test_an_instance_is_no_effect() -> None:
    """An effect is named by its class or operation."""
    with pytest.raises(exceptions.EffectDefinitionError, match="by its class or its operation"):
        effects.perform(Plain(), payload=PAYLOAD, key="a")  # type: ignore[arg-type]


def test_async_code_is_told_what_to_await() -> None:
    """`perform` would block the event loop; the message names `aperform`."""

    async def view() -> None:
        effects.perform(Plain, payload=PAYLOAD, key="a")

    with pytest.raises(SynchronousOnlyOperation, match=r"await effects\.aperform"):
        asyncio.run(view())


@pytest.mark.django_db(transaction=True)
def test_who_performs_is_told_until_when_people_decide(admin_user: Any, django_user_model: Any) -> None:
    """The first outcome, and that of a repetition, have the time of the approval's row."""
    asker = django_user_model.objects.create_user("asker")
    with provider_says(Approved, effects.Applied()):
        first, again = (effects.perform(Approved, payload=PAYLOAD, key="a", requested_by=asker) for _ in range(2))
    assert isinstance(first, effects.AwaitingApproval)
    assert first.decide_by == again.decide_by == Approval.objects.get().decide_by
    assert first.decide_by - Approval.objects.get().created_at == timedelta(days=7)


@pytest.mark.parametrize("foreign", ["effects.py", "effects/__init__.py"])
def test_the_console_names_a_foreign_package_that_is_taken_for_the_journal(tmp_path: Path, foreign: str) -> None:
    """Nothing of ours but the console is loaded then, so that no check could say it."""
    (tmp_path / foreign).parent.mkdir(exist_ok=True)
    (tmp_path / foreign).touch()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", "import effects_admin.apps"], cwd=tmp_path, env=env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert f"`import effects` gives the module at {tmp_path / foreign}, not django-effects" in done.stderr
