"""The project's `REDACTOR` sees every text before it is stored, digested or logged."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.core import checks

import effects
from effects.journal.logs import get_logger
from effects.journal.summaries import digest_of_summary
from effects.models import Execution, Receipt
from effects.runtime import background
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import canonical, exceptions
from tests.core.declared import Charge, ChargePayload, Plain
from tests.core.people import PAYLOAD
from tests.redaction.declared import CANARY, Loose, Wire, transfer

pytestmark = pytest.mark.django_db


def places(text: str, place: str) -> str:
    """Write down where a text stood."""
    return text.replace(CANARY, f"<{place}>")


def broken(text: str, place: str) -> str:
    raise ValueError(f"cannot redact {text}")


def wordless(text: str, place: str) -> Any:
    return None


def test_each_text_comes_with_its_place(redactor: Any) -> None:
    """Output, reference and all other text; the summary is digested as it is kept."""
    redactor(places)
    Wire.shows = staticmethod(lambda context: {"to": CANARY})
    with provider_says(Wire, effects.Applied({"echo": CANARY}, CANARY)):
        done = effects.perform(Wire, payload=transfer("another"), key="k1")
    row = Execution.objects.get(pk=done.ref)
    assert row.output == '{"echo":"<output>"}'
    assert row.reference == "<reference>"
    assert row.summary["facts"] == [["to", "<text>"]]
    assert digest_of_summary(row.summary) == row.summary_digest
    with provider_says(Plain, effects.Declined(f"not {CANARY}", code=CANARY)):
        failed = effects.perform(Plain, payload=PAYLOAD, key="k1")
    assert (failed.message, failed.code) == ("not <text>", "<text>")  # type: ignore[attr-defined]
    assert not [receipt for receipt in Receipt.objects.all() if CANARY in str(receipt.evidence)]


def test_names_that_are_redacted_alike_stay_as_many(redactor: Any) -> None:
    """No value of an output is lost because its name may not be shown, at any depth."""
    redactor(lambda text, place: "***" if text.isdigit() else text)
    with provider_says(Charge, effects.Applied({"4111": 1, "cards": [{"1": "a", "22": "b", "***": "c"}], "4222": 2})):
        done = effects.perform(Charge, payload=ChargePayload("x", 1), key="k1")
    output = effects.get(done.ref).outcome.require()
    assert sorted(output) == ["***", "*** (2)", "cards"]
    assert sorted([output["***"], output["*** (2)"]]) == [1, 2]
    assert sorted(output["cards"][0].values()) == ["a", "b", "c"]


def test_a_payload_is_refused_rather_than_rewritten(redactor: Any) -> None:
    """What is recorded is what is sent; the path says what to make a secret of."""
    redactor(places)
    for payload, path in (({"a": [{"b": CANARY}]}, r"^\$.a\[0\].b: "), ({CANARY: 1}, r"^\$.\[secret\]: ")):
        with pytest.raises(exceptions.PayloadError, match=path) as refused:
            effects.perform(Loose, payload=payload, key="k1")
        assert CANARY not in str(refused.value)
    with pytest.raises(exceptions.PayloadError, match=r"^\$.customer: "):
        effects.perform_later(Plain, payload=ChargePayload(CANARY, 1), key="k1")
    assert not Execution.objects.exists()


def test_a_project_may_let_payloads_pass(redactor: Any) -> None:
    """Masking what a provider says, and not whom a mail goes to."""
    redactor(lambda text, place: text if place == "payload" else "***")
    with provider_says(Plain, effects.Declined("no")) as said:
        failed = effects.perform(Plain, payload=ChargePayload("c1", 1), key="k1")
    assert said.sends[0][0].payload.customer == "c1"
    assert failed.message == "***"  # type: ignore[attr-defined]


@pytest.mark.parametrize("redact", [broken, wordless])
def test_a_redactor_that_fails_lets_nothing_through(
    redactor: Any, redact: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Recording goes on, with the whole text left out; its own error is told without the text."""
    redactor(lambda text, place: redact(text, place) if CANARY in text else text)
    with provider_says(Charge, effects.Applied([CANARY], CANARY)):
        done = effects.perform(Charge, payload=PAYLOAD, key="k1")
    row = Execution.objects.get(pk=done.ref)
    assert "[redacted: the REDACTOR" in row.output
    assert "[redacted: the REDACTOR" in row.reference
    with pytest.raises(exceptions.PayloadError):
        effects.perform(Loose, payload={"a": CANARY}, key="k2")
    assert "REDACTOR r" in caplog.text
    assert CANARY not in caplog.text


def test_a_secret_across_the_cut_leaves_no_half(redactor: Any) -> None:
    """A megabyte of HTML is redacted before it is cut to what is kept."""
    redactor()
    for before in range(1960, 2001, 4):
        assert "canary" not in canonical.clean_text("x" * before + CANARY + "y" * 1_000_000)
    assert "can" not in canonical.clean_reference("x" * 250 + CANARY)
    assert canonical.clean_text("x" * 3000) == "x" * 1999 + "…"


def test_what_a_redactor_writes_is_storable(redactor: Any) -> None:
    """NUL and lone surrogates of its own are no reason to lose an outcome."""
    redactor(lambda text, place: text if place == "payload" else text.replace("c", "\x00\ud800"))
    with provider_says(Charge, effects.Applied({"c": "c"}, "c1")):
        assert effects.perform(Charge, payload=ChargePayload("x", 1), key="k1").reference == "\ufffd1"  # type: ignore[attr-defined]


def test_a_wrong_one_is_found_at_start_up(settings: Any) -> None:
    """`manage.py check` names it."""
    settings.EFFECTS = {"REDACTOR": "shop.no_such.redact"}
    found = [one for one in checks.run_checks(tags=["effects"]) if "REDACTOR" in one.msg]
    assert [one.id for one in found] == ["effects.E002"]
    assert "cannot be imported" in found[0].msg


# -- logs ----------------------------------------------------------------------------------------------------------


def test_logs_are_redacted_with_their_tracebacks(redactor: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The traceback stays as text; without its frames, whose variables a mail or a tracker would show."""
    redactor()
    with provider_says(Charge, TimeoutError(), look_up=ValueError(f"no {CANARY}")):
        effects.perform(Charge, payload=PAYLOAD, key="k1")
        run_due()
    (record,) = (record for record in caplog.records if "raised" in record.getMessage())
    assert record.exc_info is None
    assert "ValueError: no ***" in caplog.text
    assert "Traceback" in caplog.text
    assert CANARY not in caplog.text


def test_without_anything_to_redact_records_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    """An error tracker groups by the template and reads the frames."""
    try:
        raise ZeroDivisionError("bug")
    except ZeroDivisionError:
        get_logger("effects.test").exception("%s failed", "x")
    (record,) = caplog.records
    assert (record.msg, record.args) == ("%s failed", ("x",))
    assert record.exc_info is not None


def test_loggers_are_not_filtered_twice() -> None:
    """The same logger asked for again has one filter."""
    assert get_logger("effects.test").filters == get_logger("effects.test").filters
    assert len(logging.getLogger("effects.test").filters) == 1


def test_what_a_worker_is_told_is_redacted_too(redactor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery logs whatever a task raises, so the task raises nothing of the project's."""
    outcome = effects.perform_later(Plain, payload=PAYLOAD, key="k1")
    row = Execution.objects.get(pk=outcome.ref)

    def describe(self: Any, context: Any) -> effects.Summary:
        raise LookupError(f"no {CANARY}")

    monkeypatch.setattr(Plain, "describe", describe)
    with pytest.raises(LookupError, match=CANARY):
        background.run(row.pk)
    redactor()
    with pytest.raises(exceptions.TroubleError, match=r"raised LookupError: no \*\*\*") as raised:
        background.run(row.pk)
    assert raised.value.__context__ is None
    row.refresh_from_db()
    assert (row.trouble_count, row.trouble) == (2, "LookupError: no ***")
    time_passes(timedelta(hours=1))
    assert run_due() == {"run_due.errors": 1}
