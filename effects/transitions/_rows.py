"""The two functions that write `state`: each with its receipt, in the caller's transaction."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

from effects.conf import settings
from effects.declarations.effect import Effect, get_effect
from effects.journal.commits import commits, is_beside
from effects.journal.locks import lock_execution
from effects.journal.logs import get_logger
from effects.journal.snapshots import ExecutionSnapshot, snapshot
from effects.journal.writes import write_with_one_try
from effects.models import Execution, Receipt, Request
from effects.signals import announce
from effects.transitions import _notices, digests
from effects.transitions._words import holds_words
from effects.transitions.settlement import hook_backoff, run_settled_hook
from effects.transitions.troubles import TROUBLED_FROM
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import EffectDefinitionError, PolicyChangedError, WrongStateError
from effects.vocabulary.foreign import present_try
from effects.vocabulary.outcomes import Outcome
from effects.vocabulary.states import (
    EXECUTION_EDGES,
    EXECUTION_SETTLED,
    REQUEST_EDGES,
    REQUEST_ENDED,
    ExecutionReason,
    ExecutionState,
    RequestReason,
    RequestState,
    Word,
    allows,
)
from effects.vocabulary.types import Actor

__all__ = [
    "advance",
    "advance_request",
    "call_hook",
    "can_be_undone",
    "effect_of",
    "end_hook",
    "end_state",
    "grace",
    "is_due",
    "is_leased",
    "postpone_hook",
    "receipt_of",
    "settles",
    "step_back",
]


log = get_logger("effects.transitions")
P = ParamSpec("P")
T = TypeVar("T")

#: The longest until what found its provider busy is due again; shorter than a sweep's period.
BUSY_WAIT = timedelta(seconds=2)
#: Why a hook ended that was never run.
HOOK_ENDED = "payload_dropped"
#: After these nothing is known that was not known before: what troubles the row may trouble it again.
_NO_PROGRESS = frozenset({"claim", "join"})
_NO_HOOK: dict[str, Any] = {"hook_due_at": None, "hook_error": "", "hook_failures": 0}


def advance(
    row: Execution,
    verb: str,
    to: ExecutionState | None = None,
    *,
    reason: ExecutionReason | None = None,
    actor: Actor | None = None,
    evidence: dict[str, Any] | None = None,
    revises: bool = True,
    previous: Outcome | None = None,
    **changes: Any,
) -> None:
    """Move a locked execution along the edge `verb`, write its receipt, run a hook that is due then, tell observers.

    Args:
        row: locked in this transaction, `locked_at` being now.
        verb: a key of `EXECUTION_EDGES`.
        to: the state after it; None keeps the state.
        reason: the reason after it; None keeps the reason.
        actor: who did it; None: the machine.
        evidence: what the receipt keeps; cleaned here.
        revises: whether state or evidence changed (a look-up's own bookkeeping does not).
        previous: the outcome before a contradiction, for the hook.
        changes: other columns.

    Raises:
        WrongStateError: the table has no such edge from here.
    """
    source = ExecutionState(row.state)
    target = to or source
    if not allows(EXECUTION_EDGES[verb], source, target):
        raise WrongStateError(f"{verb} is not possible: {row.operation} {row.pk} is {source}, not leading to {target}")
    changes["state"] = str(target)
    if reason is not None:
        changes["reason"] = str(reason)
    settles = target in EXECUTION_SETTLED and source not in EXECUTION_SETTLED
    changes.update(_settling(row, source, target, evidence))
    changes["revision"] = row.revision + (1 if revises else 0)
    changes["receipt_count"] = row.receipt_count + 1
    changes["swept_until"] = None
    alone = row.trouble_count >= TROUBLED_FROM
    if row.trouble_count and verb not in _NO_PROGRESS:
        changes.update(trouble_count=0, trouble="")
    waits = settles and _hook_waits(row, alone=alone)
    if waits:
        changes["hook_due_at"] = row.locked_at
        digests.tell(row, "hook", "due")
    _write(row, changes)
    receipt_of(row, verb, source, actor, evidence).save(force_insert=True)
    if target is ExecutionState.NEEDS_INTERVENTION and source is not target:
        _notices.person_needed(row)
    if settles and not waits:
        _run_hook(row, previous)
    if revises or source is not target or verb == "run_hook":
        announce(row, verb, source)


def _settling(
    row: Execution, source: ExecutionState, target: ExecutionState, evidence: dict[str, Any] | None
) -> dict[str, Any]:
    """Return what changes in a locked row that settles, is unsettled again, or is settled and written about."""
    at = row.locked_at
    if target not in EXECUTION_SETTLED:
        # the hook of a row that was settled was for what is doubted now
        return {"settled_at": None, "ages_from": None, **(_NO_HOOK if source in EXECUTION_SETTLED else {})}
    if source not in EXECUTION_SETTLED:
        return {"settled_at": at, "ages_from": at, "due_at": None, **_NO_HOOK}
    writes_on_tombstone = row.pruned_at is not None and row.ages_from is None and holds_words(evidence)
    return {"ages_from": at} if writes_on_tombstone else {}


def advance_request(
    row: Request,
    verb: str,
    to: RequestState | None = None,
    *,
    reason: RequestReason | None = None,
    actor: Actor | None = None,
    evidence: dict[str, Any] | None = None,
    **changes: Any,
) -> None:
    """Move a locked request along the edge `verb` and write its receipt; like `advance`.

    Raises:
        WrongStateError: the table has no such edge from here.
    """
    source = RequestState(row.state)
    target = to or source
    if not allows(REQUEST_EDGES[verb], source, target):
        raise WrongStateError(f"{verb} is not possible: request {row.pk} is {source}, not leading to {target}")
    changes["state"] = str(target)
    if reason is not None:
        changes["reason"] = str(reason)
    if target is not RequestState.RUNNING:
        changes["lease_expires_at"] = None
    if target in REQUEST_ENDED:
        changes.update(ended_at=row.locked_at, due_at=None)
    changes["revision"] = row.revision + 1
    changes["receipt_count"] = row.receipt_count + 1
    changes["swept_until"] = None
    _write(row, changes)
    receipt_of(row, verb, source, actor, evidence).save(force_insert=True)


def receipt_of(
    row: Execution | Request,
    event: str,
    source: Word | None,
    actor: Actor | None = None,
    evidence: dict[str, Any] | None = None,
    *,
    to: Word | None = None,
    **columns: Any,
) -> Receipt:
    """Return the receipt of a row as it now stands, and of what was told of other rows; the caller inserts it.

    Args:
        row: locked and written, `locked_at` being now.
        event: the verb.
        source: the state before it; None: the verb made the row.
        actor: who did it; None: the machine.
        evidence: what it keeps; cleaned here.
        to: the state after it, where the row has gone on already.
        columns: others that are not as the row has them by now.
    """
    is_execution = isinstance(row, Execution)
    told: dict[str, Any] = {
        "sequence": row.receipt_count, "revision": row.revision, "epoch": row.epoch,
        "may_have_applied": isinstance(row, Execution) and row.may_have_applied, **columns,
    }  # fmt: skip
    receipt = Receipt(
        execution_id=row.pk if is_execution else None,
        request_id=None if is_execution else row.pk,
        event=event,
        from_state=str(source or ""),
        to_state=str(to or row.state),
        reason=str(row.reason),
        actor_id=actor.id if actor else "",
        actor_label=str(actor) if actor else "",
        evidence=canonical.clean_json(evidence or {}),
        at=row.locked_at,
        digests=digests.take_told(row),
        **told,
    )
    receipt.digests[digests.OWN] = digests.digest_of_receipt(receipt, row.created_at)
    return receipt


def effect_of(row: Execution) -> Effect[Any]:
    """Return the effect of an unsettled row, refusing to touch one of another safety version or provider.

    Raises:
        PolicyChangedError: the declaration's `safety_version` or `provider` is another one; deploy the old code, or
            resolve by hand.
        EffectDefinitionError: the effect is gone.
    """
    effect = get_effect(row.operation)
    if effect.safety_version != row.safety_version:
        raise PolicyChangedError(
            f"{row.operation} {row.pk} was recorded under safety_version {row.safety_version}; this code declares "
            f"{effect.safety_version} and may not touch it. Run the older code until it is settled, or resolve it."
        )
    if effect.provider != row.provider:
        raise PolicyChangedError(
            f"{row.operation} {row.pk} was recorded for {row.provider!r}; this code calls {effect.provider!r}, which "
            "knows nothing of it. Run the older code until it is settled, or resolve it."
        )
    return effect


def can_be_undone(row: Execution) -> bool:
    """Return whether a locked execution happened and still stands: what its provider undid is not undone twice."""
    happened = row.state in (ExecutionState.COMPLETED, ExecutionState.PARTIALLY_COMPLETED)
    return happened and row.reason != ExecutionReason.UNDONE


def end_state(row: Execution) -> ExecutionState:
    """Return how an execution ends that will not be sent (again) and of which nothing was applied."""
    return ExecutionState.FAILED if row.attempts else ExecutionState.REJECTED


def grace() -> timedelta:
    """Return how long a lease outlives its deadline."""
    return settings.LEASE_GRACE


def _write(row: Execution | Request, changes: dict[str, Any]) -> None:
    for name, value in changes.items():
        setattr(row, name, value)
    type(row)._default_manager.filter(pk=row.pk).update(**changes)


def settles(verb: Callable[P, T]) -> Callable[P, T]:
    """Let a verb settle although the hook breaks the transaction: then it commits without it, and the hook stays due.

    Every verb that can lead to a settled state has this; in one without it hooks are not run, and are due at once.
    """

    def written(*arguments: P.args, **options: P.kwargs) -> T:
        result = verb(*arguments, **options)
        tried = present_try()
        if tried is not None and tried.count and not tried.finished and _lost_its_hook(result):
            # committed by the hook's own COMMIT, so that nothing says that it has to run again
            result = cast("T", _keep_hook_due(result.id, tried.error))  # type: ignore[attr-defined]
        return result

    @functools.wraps(verb)
    def settling(*arguments: P.args, **options: P.kwargs) -> T:
        return write_with_one_try(lambda: written(*arguments, **options))

    return settling


def _lost_its_hook(result: object) -> bool:
    return isinstance(result, ExecutionSnapshot) and result.settled and result.hook_due_at is None


def _keep_hook_due(execution_id: UUID, error: str) -> ExecutionSnapshot:
    with commits("running a settled hook"):
        row = lock_execution(execution_id)
        if row.state in EXECUTION_SETTLED and row.hook_due_at is None:
            postpone_hook(row, error)
        return snapshot(row)


def _hook_waits(row: Execution, *, alone: bool) -> bool:
    """Return whether the settled hook of a row that settles now stays due, without a try in this transaction.

    With the journal in a database of its own it runs after the commit, at least once: its rows are not ours to undo.

    Args:
        row: about to be settled.
        alone: what came before failed so often that the hook may be to blame: the outcome is committed without it.
    """
    if not _may_have_hook(row) or row.pruned_at is not None:
        return False
    tried = present_try()
    return alone or is_beside() or tried is None or (tried.left_out and not tried.blame)


def _run_hook(row: Execution, previous: Outcome | None) -> None:
    """Run the settled hook of a row that was just settled; if it raises it stays due.

    Args:
        row: just settled.
        previous: the outcome before a contradiction.
    """
    if not _may_have_hook(row):
        return
    if row.pruned_at is not None:
        end_hook(row)
        return
    tried = present_try()
    error = tried.blame if tried is not None and tried.left_out else call_hook(row, previous)
    if error is not None:
        postpone_hook(row, error)


def end_hook(row: Execution) -> None:
    """Let the settled hook of a tombstone rest, whose payload it would be given; the receipt says that it never ran."""
    log.warning(
        "%s %s was settled after retention had dropped its payload; its settled hook is not run.", row.operation, row.pk
    )
    advance(row, "end_hook", revises=False, evidence={"code": HOOK_ENDED}, **_NO_HOOK)


def _may_have_hook(row: Execution) -> bool:
    try:
        return get_effect(row.operation).has_hook
    except EffectDefinitionError:
        return True


def call_hook(row: Execution, previous: Outcome | None = None) -> str | None:
    """Run the settled hook of a locked execution; return None, or why its rows are not there."""
    try:
        effect = get_effect(row.operation)
    except EffectDefinitionError as missing:  # this code does not know the effect; the next deploy may
        return canonical.clean_text(str(missing))
    return run_settled_hook(effect, row, previous) if effect.has_hook else None


def is_due(row: Execution) -> bool:
    """Return whether a locked execution is due, by the clock that was read after the lock."""
    return row.due_at is not None and row.due_at <= row.locked_at


def is_leased(row: Execution) -> bool:
    """Return whether a sender or a look-up holds the lease of a locked execution, by the same clock."""
    return row.lease_expires_at is not None and row.lease_expires_at > row.locked_at


def step_back(row: Execution) -> None:
    """Leave a due row for a moment, since its provider is busy. No receipt: nothing is known that was not before."""
    wait = BUSY_WAIT * random.uniform(0.5, 1)  # noqa: S311 - no secret
    _write(row, {"due_at": row.locked_at + wait, "swept_until": None})


def postpone_hook(row: Execution, error: str) -> None:
    """Keep what a settled hook raised, and let it run again later, the later the more often it raised."""
    failures = row.hook_failures + 1
    _write(row, {
        "hook_due_at": row.locked_at + hook_backoff(failures), "hook_failures": failures, "hook_error": error,
        "swept_until": None,  # the sweep's own mark would hold it back for longer
    })  # fmt: skip
