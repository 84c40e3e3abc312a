"""A cell of the matrix: one payment, killed at a point, and everything that happens afterwards until it is settled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import connection

from effects.models import Approval, Execution, Request, RequestExecution
from effects.testing import time_passes
from effects.vocabulary.exceptions import EffectsError
from effects.vocabulary.states import (
    APPROVAL_LIVE,
    EXECUTION_SETTLED,
    REQUEST_ENDED,
    ApprovalPurpose,
    ApprovalState,
    ExecutionState,
    RequestState,
    values,
)
from tests.crash import work
from tests.crash.declared import EFFECTS, LAG
from tests.crash.forks import CHILD_LOCK, Forks, Said
from tests.crash.oracle import Broken
from tests.crash.provider import ask, wait_held

__all__ = ["APPROVERS", "Life", "Setting", "begin", "wait_for_children"]

#: Two, so that a resend that one ordered can be agreed to by another.
APPROVERS = ("petra", "quentin")
#: What passes between two looks: the leases, every barrier, the back-off of hooks and look-ups.
AGES = (timedelta(minutes=2), timedelta(minutes=8), timedelta(minutes=12), *[timedelta(minutes=45)] * 8)
_SETTLED, _ENDED, _LIVE = values(EXECUTION_SETTLED), values(REQUEST_ENDED), values(APPROVAL_LIVE)


@dataclass(frozen=True)
class Setting:
    """What a payment is made in.

    Attributes:
        provider: what the provider attests.
        asks: a person must agree.
        way: a view (declared, opaque), a script (perform), a worker behind a transactional view.
        trouble: what goes wrong besides the kill: reply_lost, request_lost, late (its lease is taken over while it
            waits for the provider), killed (once before, after the provider applied), raises, hook_raises.
    """

    provider: str
    asks: bool
    way: str
    trouble: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, (self.way, self.provider, "asks" if self.asks else "", self.trouble)))


@dataclass
class Life:
    """One payment from the client's first word to the last receipt.

    Args:
        setting: where.
        forks: what forks the children.
        faults: what happens to children, one after the other: the name of a fault point, or what `forks` knows.
        watching: run all of it in children, to learn which points they reach.
    """

    setting: Setting
    forks: Forks
    faults: list[str] = field(default_factory=list)
    watching: bool = False
    points: list[str] = field(default_factory=list)
    #: What each client was told, in order; None: nothing, it was killed.
    answers: list[Any] = field(default_factory=list)
    #: How the journal stood when the last fault had been met.
    met: dict[str, Any] = field(default_factory=dict)
    #: What people did, in order.
    acts: list[str] = field(default_factory=list)
    #: The provider has answered late already.
    late: bool = False

    order = "order-17"

    def live(self) -> Life:
        """Live until everything is settled.

        Raises:
            Broken: it never is, or a fault was never met.
        """
        if self.setting.trouble == "killed":
            self.faults.insert(0, "wire.answered")
        wired = self.setting.trouble in ("reply_lost", "request_lost", "late")
        attested, lag = self.setting.provider == "deduplicates", LAG if self.setting.provider == "lagging" else 0.0
        begin(deduplicates=attested, lag=lag, trouble=self.setting.trouble if wired else "")
        self._start()
        for age in AGES:
            self._people()
            if self._over():
                return self
            ask("age", seconds=age.total_seconds())
            time_passes(age)
            self._send("sweep")
            self._people()
            self._client()
        raise Broken(f"never ends: {_standing()}; unmet: {self.faults}")

    # -- programs --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._client()
        for ref in self._refs():
            if self.setting.way == "worker":
                self._send("run", ref=ref)

    def _client(self) -> None:
        """Ask, or ask again: the same request, the same script."""
        s = self.setting
        about = {"provider": s.provider, "asks": s.asks, "order": self.order}
        trouble = s.trouble if s.trouble in ("raises", "hook_raises") else ""
        if s.way == "perform":
            self._send("perform", **about, trouble=trouble)
        else:
            self.answers.append(self._send("request", way=s.way, **about, trouble=trouble))

    def _send(self, name: str, **arguments: Any) -> Any:
        """Do what may come to the provider; where it answers late, the sender's lease is past before it does."""
        if self.setting.trouble != "late" or self.late:
            return self._do(name, **arguments)
        self.forks.begin(name, arguments, self.faults[0] if self.faults else "")
        # one that died on its way, or had nothing to send, leaves being late to the next one
        self.late = wait_held(self.forks)
        if self.late:
            time_passes(timedelta(minutes=1))
            work.do("expire_leases", {})
            ask("release")
        return self._ended(self.forks.end())

    def _do(self, name: str, **arguments: Any) -> Any:
        """Work in a child while a fault waits for it, else here."""
        if not (self.faults or self.watching):
            try:
                return work.do(name, arguments)
            except EffectsError as error:
                return {"refused": type(error).__name__}
        self.forks.begin(name, arguments, self.faults[0] if self.faults else "")
        return self._ended(self.forks.end())

    def _ended(self, said: Said) -> Any:
        self.points += said.points
        wait_for_children()
        if said.killed or said.fired:
            self.faults.pop(0)
            self.met = _standing()
        elif said.status:
            raise Broken(f"a child ended with {said.status}")
        if said.error and not said.error.startswith(_REFUSALS):
            raise Broken(f"a child raised {said.error}")
        return said.result

    # -- people ----------------------------------------------------------------------------------------------------

    def _people(self) -> None:
        """Let people decide whatever waits for them, as honest people do."""
        for row in Execution.objects.exclude(state__in=_SETTLED):
            asked = Approval.objects.filter(execution=row, state=str(ApprovalState.REQUESTED)).first()
            if asked is not None:
                self._act("grant", ref=str(row.pk), digest=asked.digest, by=APPROVERS[0])
                self._send("run", ref=str(row.pk))
            elif row.state == ExecutionState.NEEDS_INTERVENTION:
                self._decide(row)
        waiting = Request.objects.filter(state=str(RequestState.IN_DOUBT), due_at=None)
        for request in waiting:
            held = RequestExecution.objects.filter(request=request, holds=True)
            if held.exclude(execution__state__in=_SETTLED).exists():
                continue
            decision = "applied" if ask("books")["applied"] else "not_applied"
            self._act("resolve_request", ref=str(request.pk), decision=decision, revision=request.revision,
                      decision_id=uuid4().hex)  # fmt: skip

    def _decide(self, row: Execution) -> None:
        if Approval.objects.filter(execution=row, state__in=_LIVE).exists():
            return  # a resend is on its way
        found = [entry["reference"] for entry in ask("books")["applied"] if entry["key"] == row.provider_key]
        about = {"ref": str(row.pk), "revision": row.revision, "decision_id": uuid4().hex}
        if not found and not self.setting.asks and "order_resend" not in self.acts:
            # the order takes effect later: nothing of the first send can land any more
            self._act("order_resend", **about)
        else:
            self._act("resolve", **about, decision="applied" if found else "not_applied", reference="".join(found[:1]))

    def _act(self, name: str, **arguments: Any) -> None:
        """Let a person act; one who is refused, or whose process dies, looks again later."""
        said = self._do(name, **arguments)
        if said is not None and not isinstance(said, dict):
            self.acts.append(name)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _over(self) -> bool:
        if Execution.objects.exclude(state__in=_SETTLED, hook_due_at=None).exists() or self.faults:
            return False
        if Request.objects.exclude(state__in=_ENDED).exists():
            return False
        # an opaque view that died before it performed anything has no execution: a person closed its request
        return Execution.objects.exists() or Request.objects.filter(state=str(RequestState.RESOLVED)).exists()

    def _refs(self) -> Iterator[str]:
        return (str(pk) for pk in Execution.objects.values_list("pk", flat=True))

    @property
    def effect(self) -> Any:
        """The effect that is performed."""
        return EFFECTS[self.setting.provider, self.setting.asks]


#: What a program may be refused with, by name: ours, and Django's for a database that is away.
_REFUSALS = (
    "JournalUnavailableError", "CommitLostError", "CommitUnknownError", "WrongStateError", "StaleRevisionError",
    "ApprovalError", "TooSoonError",
)  # fmt: skip
_CLEARED = (
    "effects_receipt", "effects_resolution", "effects_approvalvote", "effects_attempt", "effects_approval",
    "effects_requestexecution", "effects_execution", "effects_request", "effects_heartbeat", "crash_row", "crash_note",
)  # fmt: skip


def begin(*, deduplicates: bool, lag: float, trouble: str) -> None:
    """Begin with an empty journal and empty books; people stay."""
    ask("reset", deduplicates=deduplicates, lag=lag, trouble=trouble)
    deletes = " ".join(f"DELETE FROM {table};" for table in _CLEARED)
    with connection.cursor() as cursor:
        cursor.execute(f"BEGIN; SET LOCAL session_replication_role = replica; {deletes} COMMIT;")


def wait_for_children() -> None:
    """Wait until the server has let go of what the dead child held."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [CHILD_LOCK])
        cursor.execute("SELECT pg_advisory_unlock(%s)", [CHILD_LOCK])


def _standing() -> dict[str, Any]:
    """Return how the journal and the books stand."""
    resends = Approval.objects.filter(purpose=str(ApprovalPurpose.RESEND), state=str(ApprovalState.SPENT))
    return {
        "executions": list(Execution.objects.values_list("state", flat=True)),
        "requests": list(Request.objects.order_by("created_at").values_list("state", flat=True)),
        "attempts": sum(Execution.objects.values_list("attempts", flat=True)),
        "resends": resends.count(),
        "applied": len(ask("books")["applied"]),
    }
