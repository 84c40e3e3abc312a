"""What people, restores, preconditions and retention do has happened, or has not; done again, it is the same."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from effects.inspection import audit
from effects.journal.locks import now
from effects.testing import run_due, time_passes
from effects.vocabulary.exceptions import EffectsError
from tests.crash import work
from tests.crash.cells import begin, wait_for_children
from tests.crash.forks import Forks
from tests.crash.provider import ask
from tests.crash.tally import Tally
from tests.crash.verbs import VERBS, Verb, standing


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.point)
def test_killed(verb: Verb, when: str, journal: Forks, tally: Tally):
    """Killed before its commit nothing of the verb is there, killed after it all of it; a repetition adds nothing."""
    begin(deduplicates=False, lag=0.0, trouble="")
    arguments = verb.prepare(journal)
    fault = f"{verb.point}.{when}_commit"
    journal.begin(verb.work, arguments, fault)
    assert journal.end().killed
    wait_for_children()
    assert standing() == (verb.stood if when == "before" else verb.stands)
    arrived = len(ask("books")["arrived"])
    if verb.work in ("request", "sweep", "sweep_unwanted"):  # the dead process's lease, and what its sweep had in hand
        time_passes(timedelta(minutes=10))
    try:
        work.do(verb.work, arguments)
    except EffectsError:
        assert when == "after"  # a repetition may be refused, not the first that counts
    assert standing() == verb.stands
    assert len(ask("books")["arrived"]) == arrived
    time_passes(timedelta(minutes=20))
    run_due()
    assert not list(audit.audit(audit.Scope(now()), Counter()))
    tally.add(fault)
