"""What each path costs, counted as DESIGN §11 counts it."""

from __future__ import annotations

from datetime import timedelta

import pytest

import effects
from effects import transitions
from effects.declarations.operations import ProtectedOperation, StoredAnswer
from effects.journal.current import RequestHandle, in_request
from effects.sweeps import SWEEPS
from effects.testing import provider_says
from effects.transitions import Opening
from tests.core.counting import counted
from tests.core.declared import Charge, ChargePayload, Plain

PAYLOAD = ChargePayload("c1", 1000)
OPENING = Opening(
    operation="charges.create", mode="journaled", tenant="", subject="user:1", scope="", key="client-key",
    fingerprint={"body": "d"}, fingerprint_version=1, declared=["bank.charge"], local_writes=False,
)  # fmt: skip
VIEW = ProtectedOperation(name="charges.create", mode="journaled", performs=("bank.charge",))

pytestmark = pytest.mark.django_db(transaction=True)


def open_handle() -> RequestHandle:
    opened = transitions.open_request(OPENING)
    assert opened.made
    return RequestHandle(
        id=opened.row.pk, epoch=opened.row.epoch, operation=VIEW, tenant="", subject="user:1", actor=None
    )


def test_a_fresh_effect_with_a_hook_costs_two_commits_and_ten_queries():
    """Record and permit commit together, the outcome with its hook is the second commit."""
    with provider_says(Charge, effects.Applied(1, "ch_1")), counted() as cost:
        effects.perform(Charge, payload=PAYLOAD, key="order-17")
    assert (cost.commits, cost.queries) == (2, 10), cost.statements


def test_a_fresh_effect_without_a_hook_costs_two_commits_and_eight_queries():
    """Without a hook there is no savepoint."""
    with provider_says(Plain, effects.Applied(1, "ch_1")), counted() as cost:
        effects.perform(Plain, payload=PAYLOAD, key="order-17")
    assert (cost.commits, cost.queries) == (2, 8), cost.statements


def test_meeting_a_settled_execution_commits_nothing_that_changes():
    """A known key costs the lock that finds it, and sends nothing."""
    with provider_says(Plain, effects.Applied(1, "ch_1")) as said:
        effects.perform(Plain, payload=PAYLOAD, key="order-17")
        with counted() as cost:
            effects.perform(Plain, payload=PAYLOAD, key="order-17")
    assert (cost.commits, cost.queries) == (1, 2), cost.statements
    assert len(said.sends) == 1


def test_a_journaled_request_with_one_effect_costs_four_commits_and_at_most_eighteen_queries():
    """Open, record and permit, outcome, conclude: four commits."""
    with provider_says(Charge, effects.Applied(1, "ch_1")), counted() as cost:
        handle = open_handle()
        with in_request(handle):
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
        transitions.conclude(handle.id, epoch=handle.epoch, answer=StoredAnswer(201, (), b"{}"))
    assert cost.commits == 4, cost.statements
    assert cost.queries <= 18, cost.statements


def test_a_replay_is_one_query_and_no_commit():
    """Opening under a key that is answered finds the answer in the statement that would have inserted it."""
    handle = open_handle()
    transitions.conclude(handle.id, epoch=handle.epoch, answer=StoredAnswer(201, (("Location", "/x"),), b"{}"))
    with counted() as cost:
        opened = transitions.open_request(OPENING)
    assert (cost.commits, cost.queries) == (0, 1), cost.statements
    assert not opened.made
    assert opened.request is not None
    assert opened.request.answer == (201, [["Location", "/x"]], b"{}")


# Each scan is one query over one partial index; these watch two things, and prune a third where it is asked to.
SCANS = dict.fromkeys(SWEEPS, 1) | {"expire_leases": 2, "expire_approvals": 2, "prune": 3}


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_with_nothing_due_is_one_query_a_scan_and_no_commit(name, settings):
    """An idle sweep writes nothing and opens no transaction, between its heartbeats of one a minute."""
    settings.EFFECTS = {"EXECUTION_RETENTION": timedelta(days=400)}
    SWEEPS[name].run_once()
    with counted() as cost:
        assert not +SWEEPS[name].run_once()
    assert (cost.commits, cost.queries) == (0, SCANS[name]), cost.statements
