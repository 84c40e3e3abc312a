"""What a declaration must say, and what it is told when it does not."""

import ast
import re
from typing import Any

import pytest

import effects
from effects.contrib.httpx import ApiRequest, CallApi
from effects.contrib.statuses import PROOF
from effects.declarations.effect import Effect
from effects.vocabulary.exceptions import EffectDefinitionError
from tests.docs.blocks import ROOT
from tests.docs.test_reference import rows
from tests.httpx.conftest import told


def declare(**attributes: Any) -> None:
    """Register an effect that is right but for what is said here; None leaves something out."""
    right = {
        "operation": "test.declared_call",
        "provider": "bank/test",
        "request": lambda self, context: ApiRequest("POST", "https://bank.example"),
        "look_up_request": lambda self, context: ApiRequest("GET", "https://bank.example"),
        "verdict": lambda self, context, answer: effects.Absent(),
        "lookup": effects.Eventual(),
    }
    said = {name: value for name, value in {**right, **attributes}.items() if value is not ...}
    effects.register(type("Declared", (CallApi,), said))


def test_the_strict_defaults() -> None:
    """Without a word no look-up, no deduplication, no repetition, TLS, and the draft's header."""
    assert (CallApi.lookup, CallApi.deduplicates, CallApi.repeatable) == (None, None, False)
    assert (CallApi.key_header, CallApi.allow_http, CallApi.proves) == ("Idempotency-Key", False, {})
    assert not CallApi.can_be_looked_up()


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"request": ...}, r"define request\(self, context\)"),
        ({"lookup": None}, "say how far to believe it"),
        ({"look_up_request": ..., "verdict": ...}, "lookup= promises a look-up"),
        ({"verdict": ...}, "define both, or neither"),
        ({"look_up_request": ..., "lookup": None}, "define both, or neither"),
        ({"key_header": ""}, "key_header = 'Idempotency-Key'"),
        ({"key_header": 17}, "key_header = 'Idempotency-Key'"),
        ({"allow_http": "localhost"}, "allow_http is True or False"),
        ({"max_answer_bytes": 0}, "a number of bytes"),
        ({"max_answer_bytes": None}, "a number of bytes"),
        ({"proves": [503]}, "proves = {503: effects.NotNow}"),
        ({"proves": {"503": effects.NotNow}}, "'503', which is no status"),
        ({"proves": {201: effects.Declined}}, r"201, which is no status.*result\(\) reads"),
        ({"proves": {503: effects.NotSent}}, "NotSent'> of 503; it is one of Declined"),
        ({"proves": {503: "retry"}}, "'retry' of 503; it is one of Declined"),
    ],
    ids=told,
)
def test_a_declaration_that_cannot_work(attributes: dict[str, Any], says: str) -> None:
    """It is refused when it is registered, with what to write."""
    with pytest.raises(EffectDefinitionError, match=says):
        declare(**attributes)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"look_up_request": ..., "verdict": ..., "lookup": None},
        {"look_up_request": ..., "verdict": ..., "verify": lambda self, context: effects.Absent()},
        {"request": ..., "send": lambda self, context, permit: effects.Applied()},
        {"key_header": None, "proves": {302: effects.Doubt, 503: effects.NotNow}},
    ],
    ids=told,
)
def test_a_declaration_that_can(attributes: dict[str, Any]) -> None:
    """With a look-up, without one, and with one of its own."""
    declare(**attributes)


def test_the_reference_has_every_attribute_and_method() -> None:
    """Those that a project may set, define or call, with the defaults of the code."""
    text = (ROOT / "docs" / "reference" / "effects.md").read_text(encoding="utf-8").partition("## HTTP APIs")[2]
    shown = {re.match(r"`(\w+)", row[0]).group(1): row[1] for row in rows(text)}  # type: ignore[union-attr]
    ours = {name: it for name, it in vars(CallApi).items() if not name.startswith("_") and not hasattr(Effect, name)}
    assert set(shown) == set(ours)
    for name in ("key_header", "proves", "reference_field", "allow_http"):
        assert ast.literal_eval(shown[name].strip("`")) == ours[name]


def test_the_guide_has_the_table() -> None:
    """Each status stands beside what it proves."""
    text = (ROOT / "docs" / "guides" / "call-an-api.md").read_text(encoding="utf-8")
    shown = {
        int(status): re.sub(r"[`,].*", "", row[1].strip("`"))
        for row in rows(text.partition("## What an answer proves")[2])
        if re.fullmatch(r"\d{3}(, \d{3})*", row[0]) and not row[0].startswith("2")
        for status in row[0].split(", ")
    }
    assert shown == {status: kind.__name__ for status, kind in PROOF.items()}
