"""A provider that knows the key from a request with other contents: a person gets it at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import effects
from effects.models import Execution
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary.exceptions import OutcomeError
from tests.core.declared import Charge, ChargePayload, Deduplicated, Plain
from tests.core.test_compensations import Transfer

PAYLOAD = ChargePayload("c1", 1000)
WORDS = "Keys can only be used with the same parameters they were first used with.\u202e"
REUSED = effects.KeyReused(WORDS, code="idempotency_error")

pytestmark = pytest.mark.django_db(transaction=True)


def at_the_first_send() -> tuple[effects.Outcome, int]:
    with provider_says(Charge, REUSED, look_up=effects.Found("somebody-elses")) as said:
        outcome = effects.perform(Charge, payload=PAYLOAD, key="payout-11")
        return outcome, later(said, 1)


def where_keys_deduplicate() -> tuple[effects.Outcome, int]:
    with provider_says(Deduplicated, REUSED) as said:
        outcome = effects.perform(Deduplicated, payload=PAYLOAD, key="payout-11")
        return outcome, later(said, 1)


def after_an_earlier_doubt() -> tuple[effects.Outcome, int]:
    with provider_says(Deduplicated, TimeoutError(), REUSED) as said:
        outcome = effects.perform(Deduplicated, payload=PAYLOAD, key="payout-11")
        time_passes(timedelta(minutes=10))
        run_due()
        return outcome, later(said, 2)


def by_a_worker() -> tuple[effects.Outcome, int]:
    with provider_says(Charge, REUSED, look_up=effects.Found("somebody-elses")) as said:
        outcome = effects.perform_later(Charge, payload=PAYLOAD, key="payout-11")
        run_due()
        return outcome, later(said, 1)


def of_an_undoing() -> tuple[effects.Outcome, int]:
    with provider_says(Transfer, effects.Applied(1, "ch_1"), REUSED) as said:
        done = effects.perform(Transfer, payload=PAYLOAD, key="payout-11")
        outcome = effects.compensate(done.ref, requested_by="test")
        return outcome, later(said, 2)


def in_a_block() -> tuple[effects.Outcome, int]:
    with pytest.raises(effects.KeyReused), effects.sending(Plain, payload=PAYLOAD, key="payout-11") as block:
        raise REUSED
    return block.outcome, 1


def later(said: Any, sends: int) -> int:
    """Let a day pass, sweeps included; return how often it was sent by then."""
    for _ in range(3):
        time_passes(timedelta(hours=8))
        run_due()
    return len(said.sends) - sends + 1


@pytest.mark.parametrize(
    "path",
    [at_the_first_send, where_keys_deduplicate, after_an_earlier_doubt, by_a_worker, of_an_undoing, in_a_block],
)
def test_a_person_gets_it_at_once_with_the_provider_s_words(path):
    """It is neither repeated nor looked up, whoever sends it, and the words are kept, cleaned."""
    outcome, sends = path()
    row = Execution.objects.get(pk=outcome.ref)
    assert (row.state, row.reason) == ("needs_intervention", "conflict")
    assert row.may_have_applied
    assert row.due_at is None
    assert row.lookups_spent == row.lookups_unreachable == 0
    assert sends == 1
    assert row.failure_code == "idempotency_error"
    assert row.failure_message.startswith("Keys can only be used with the same parameters")
    assert row.attempt_rows.order_by("number").last().message == row.failure_message
    told = row.receipts.get(event="escalate").evidence
    assert (told["code"], told["message"]) == ("idempotency_error", row.failure_message)
    with pytest.raises(OutcomeError) as refused:
        effects.get(outcome.ref).outcome.require()
    assert refused.value.effect_may_have_happened


def test_a_person_s_word_settles_it():
    """What they find at the provider decides; the refusal's words do not stay on what happened."""
    outcome, _ = at_the_first_send()
    seen = effects.get(outcome.ref)
    effects.resolve(
        outcome.ref, decision="applied", revision=seen.revision, by="ops", reason="found it", decision_id="d1",
        reference="ch_9",
    )  # fmt: skip
    row = Execution.objects.get(pk=outcome.ref)
    assert (row.state, row.failure_code, row.failure_message) == ("completed", "", "")


@pytest.mark.parametrize("error", [effects.Doubt("in use", code="key_in_use"), ConnectionError("cut")])
def test_a_key_in_use_stays_doubt(error):
    """Whose first request is under way, is asked of the provider."""
    with provider_says(Charge, error):
        outcome = effects.perform(Charge, payload=PAYLOAD, key="payout-11")
    assert outcome.state == "uncertain"


def test_the_console_shows_the_words(admin_client):
    """Whoever has to decide reads what the provider said, on the execution's page."""
    outcome, _ = at_the_first_send()
    page = admin_client.get(f"/admin/effects/execution/{outcome.ref}/change/").content.decode()
    assert "Keys can only be used with the same parameters they were first used with." in page
    assert "idempotency_error" in page
