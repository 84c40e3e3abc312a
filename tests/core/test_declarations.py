"""What a developer writes wrong is refused where it is written, with what to write."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import SynchronousOnlyOperation

import effects
from effects import exceptions
from effects.models import Approval, Execution
from effects.testing import provider_says
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
