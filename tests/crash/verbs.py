"""Verbs beside a payment's usual way: what people, restores, preconditions and retention do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.test import override_settings

import effects
from effects.models import Approval, Execution, Request
from effects.testing import run_due, time_passes
from tests.crash import work
from tests.crash.cells import APPROVERS
from tests.crash.declared import EFFECTS, payload_of
from tests.crash.forks import Forks
from tests.crash.provider import ask
from tests.crash.work import TELLING

__all__ = ["VERBS", "Verb", "standing"]

ORDER = "order-17"
Prepared = dict[str, Any]


@dataclass(frozen=True)
class Verb:
    """One verb.

    Attributes:
        point: of its commit.
        work: what `work` knows it as.
        prepare: makes what it is done to; returns its arguments.
        stood: how execution and request stand before.
        stands: and after.
    """

    point: str
    work: str
    prepare: Callable[[Forks], Prepared]
    stood: tuple[str, str]
    stands: tuple[str, str]


def standing() -> tuple[str, str]:
    """Return the states of the execution and of the newest request."""
    execution = Execution.objects.values_list("state", flat=True).first()
    request = Request.objects.order_by("-created_at").values_list("state", flat=True).first()
    return execution or "", request or ""


def _ref() -> Prepared:
    return {"ref": str(Execution.objects.get().pk)}


def _seen() -> Prepared:
    return {**_ref(), "revision": Execution.objects.get().revision}


def _pending(trouble: str = "") -> Callable[[Forks], Prepared]:
    def prepare(forks: Forks) -> Prepared:
        with transaction.atomic():
            effects.perform_later(EFFECTS["none", False], payload=payload_of(ORDER, trouble), key=ORDER)
        return _ref()

    return prepare


def _awaiting(forks: Forks) -> Prepared:
    work.do("perform", {"provider": "none", "asks": True, "order": ORDER, "trouble": ""})
    return {**_ref(), "digest": Approval.objects.get().digest, "by": APPROVERS[0]}


def _undecided(forks: Forks) -> Prepared:
    _awaiting(forks)
    time_passes(timedelta(days=8))
    return {}


def _noticed(order: str) -> Callable[[Forks], Prepared]:
    """Return what asks people while the project has a `NOTIFY`, which raises for the order "deaf"."""

    def prepare(forks: Forks) -> Prepared:
        with override_settings(EFFECTS=TELLING):
            work.do("perform", {"provider": "none", "asks": True, "order": order, "trouble": ""})
        return {}

    return prepare


def _old(forks: Forks) -> Prepared:
    work.do("perform", {"provider": "none", "asks": False, "order": ORDER, "trouble": ""})
    time_passes(timedelta(days=40))
    return {}


def _named(forks: Forks) -> Prepared:
    work.do("perform", {"provider": "none", "asks": False, "order": ORDER, "trouble": ""})
    return {"new": str(uuid4())}


def _withdrawn(forks: Forks) -> Prepared:
    _awaiting(forks)
    return _ref()


def _uncertain(forks: Forks) -> Prepared:
    ask("reset", deduplicates=False, lag=3600.0, trouble="reply_lost")
    work.do("perform", {"provider": "lagging", "asks": False, "order": ORDER, "trouble": ""})
    return {**_ref(), "reference": ask("books")["applied"][0]["reference"]}


def _waiting(forks: Forks) -> Prepared:
    _uncertain(forks)
    time_passes(timedelta(minutes=1))
    return {}


def _conflicting(forks: Forks) -> Prepared:
    ask("reset", deduplicates=False, lag=0.0, trouble="reply_lost")
    work.do("perform", {"provider": "lagging", "asks": False, "order": ORDER, "trouble": "conflict"})
    time_passes(timedelta(minutes=10))
    run_due()
    return _seen()


def _running(forks: Forks) -> Prepared:
    forks.begin("request", _asking(""), "handler.started")
    assert forks.end().killed
    request = Request.objects.get()
    return {"ref": str(request.pk), "epoch": request.epoch}


def _interrupted(forks: Forks) -> Prepared:
    return {"ref": _running(forks)["ref"]}


def _answered(forks: Forks) -> Prepared:
    work.do("request", _asking(""))
    time_passes(timedelta(days=4))
    return {}


def _asking(trouble: str) -> Prepared:
    return {"way": "declared", "provider": "none", "asks": False, "order": ORDER, "trouble": trouble}


VERBS = [
    Verb("refusing_an_effect", "run", _pending("refuses"), ("pending", ""), ("rejected", "")),
    Verb("postponing_an_effect", "run", _pending("later"), ("pending", ""), ("pending", "")),
    Verb("noting_trouble", "note_trouble", _pending(), ("pending", ""), ("pending", "")),
    Verb("cancelling_an_effect", "cancel", _pending(), ("pending", ""), ("rejected", "")),
    Verb("doubting_an_effect_after_a_restore", "doubt_since", _pending(), ("pending", ""), ("uncertain", "")),
    Verb("denying_an_effect", "deny", _awaiting, ("awaiting_approval", ""), ("rejected", "")),
    Verb("withdrawing_an_approval", "withdraw", _withdrawn, ("awaiting_approval", ""), ("rejected", "")),
    Verb("expiring_an_approval", "sweep", _undecided, ("awaiting_approval", ""), ("rejected", "")),
    Verb("recording_evidence", "observe", _uncertain, ("uncertain", ""), ("uncertain", "")),
    Verb("postponing_a_look-up", "sweep_unwanted", _waiting, ("uncertain", ""), ("uncertain", "")),
    Verb("reopening_an_effect", "reopen", _conflicting, ("needs_intervention", ""), ("uncertain", "")),
    Verb("releasing_a_request", "request", lambda forks: _asking("declined"), ("", "running"), ("", "released")),
    Verb("renewing_leases", "renew", _running, ("", "running"), ("", "running")),
    Verb("doubting_a_request_after_a_restore", "doubt_request_since", _interrupted, ("", "running"), ("", "in_doubt")),
    Verb("pruning_an_execution", "prune", _old, ("completed", ""), ("completed", "")),
    Verb("giving_the_journal_an_id", "name_journal", _named, ("completed", ""), ("completed", "")),
    Verb("forgetting_a_notice", "tell", _noticed("heard"), ("awaiting_approval", ""), ("awaiting_approval", "")),
    Verb("postponing_a_notice", "tell", _noticed("deaf"), ("awaiting_approval", ""), ("awaiting_approval", "")),
    Verb("retention", "sweep", _answered, ("completed", "answered"), ("completed", "answered")),
]
