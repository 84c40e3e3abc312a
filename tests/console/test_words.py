"""The console's words: complete, and readable."""

from datetime import datetime, timedelta, timezone

import pytest
from django.utils import timezone as zones

from effects.models import Receipt
from effects.transitions import DECISIONS
from effects.vocabulary.states import (
    EXECUTION_EDGES,
    REQUEST_EDGES,
    ApprovalState,
    ExecutionReason,
    ExecutionState,
    RequestReason,
    RequestState,
)
from effects_admin import display, words


def test_every_word_of_the_machines_is_explained() -> None:
    """Each state, reason, verb and decision has its sentence, and no sentence is left over."""
    assert set(words.EXECUTION_MEANINGS) == set(ExecutionState)
    assert set(words.REQUEST_MEANINGS) == set(RequestState)
    assert set(words.APPROVAL_MEANINGS) == set(ApprovalState)
    assert set(words.REASONS) == {*ExecutionReason, *RequestReason} - {""}
    assert set(words.EVENTS) == {*EXECUTION_EDGES, *REQUEST_EDGES}
    assert set(words.DECISIONS) == set(DECISIONS)
    assert set(words.REQUEST_DECISIONS) <= {str(reason) for reason in RequestReason}


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        (125_000, "eur", "1,250.00 EUR"), (5, "USD", "0.05 USD"), (-1999, "eur", "-19.99 EUR"), (0, "eur", "0.00 EUR"),
        (1250, "jpy", "1,250 JPY"), (1250, "KWD", "1.250 KWD"), (1250, "points", "1,250 minor units points"),
        (7, "", "7 minor units"), (None, "eur", ""),
    ],
)  # fmt: skip
def test_money_is_written_in_its_own_unit(amount: int | None, currency: str, shown: str) -> None:
    """Minor units become the currency's own unit, with as many digits as it has."""
    assert display.money(amount, currency) == shown


def test_two_hours_of_an_autumn_night_are_told_apart() -> None:
    """An instant names its zone, so that the hour that comes twice is two."""
    before, after = (datetime(2026, 10, 25, hour, 30, tzinfo=timezone.utc) for hour in (0, 1))
    with zones.override("Europe/Berlin"):
        assert display.moment(before) == "2026-10-25 02:30:00 CEST"
        assert display.moment(after) == "2026-10-25 02:30:00 CET"


@pytest.mark.parametrize(
    ("length", "shown"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3_725, "1 h 2 min"), (90_000, "1 d 1 h"), (86_401, "1 d")],
)
def test_spans_take_two_units(length: int, shown: str) -> None:
    """A length of time is shown by its two largest units."""
    assert display.span(timedelta(seconds=length)) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\u202eb", "a\\u202eb"), ("a\u200bb", "a\\u200bb"), ("a\x07", "a\\u0007"), ("a\ud800", "a\\ud800"),
     ("é 漢 {}\n", "é 漢 {}\n")],
)  # fmt: skip
def test_invisible_characters_are_written_out(text: str, shown: str) -> None:
    """What a reader cannot see, and what would reorder the line, is spelt; everything else stays."""
    assert display.visible(text) == shown


def test_payload_that_is_no_json_is_shown_as_it_is() -> None:
    """A stored text that cannot be read is shown, not hidden behind an error."""
    assert display.pretty("{not json") == "{not json"
    assert display.pretty('{"a":[1]}') == '{\n  "a": [\n    1\n  ]\n}'


@pytest.mark.parametrize(
    ("evidence", "says"),
    [
        ({"verdict": "Unreachable", "why": "away"}, "Look-up: the provider could not be reached"),
        ({"why": "RECONCILE_CHECK refused it for now"}, "Put off, to be worked on again later"),
        ({"reason": "the bank is closed"}, "Put off, to be worked on again later"),
    ],
)
def test_what_was_put_off_without_asking_is_not_called_a_look_up(evidence: dict[str, str], says: str) -> None:
    """The timeline says that the provider was asked only where it was."""
    assert words.headline(Receipt(event="postpone", evidence=evidence)) == says
