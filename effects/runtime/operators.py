"""What people and programs do to executions by hand: the public verbs, each with its consequences.

Each runs the verb (commits), tells observers, settles the requests that waited, and hints a worker where something is
due. The admin's pages, an API and a shell call the same functions.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from effects import transitions
from effects.declarations.operations import StoredAnswer
from effects.journal.commits import reaching
from effects.journal.queries import read_ref
from effects.journal.snapshots import ExecutionSnapshot, RequestSnapshot
from effects.models import Approval, Execution
from effects.people.actors import USER, actor_of, find_user, is_user
from effects.people.eligibility import why_not_end
from effects.runtime import background, consequences
from effects.runtime.dispatch import send_hint
from effects.vocabulary.exceptions import ApprovalError, ExecutionNotFoundError, NotEntitledError, WrongStateError
from effects.vocabulary.states import APPROVAL_LIVE, ExecutionState, values
from effects.vocabulary.types import Actor

__all__ = [
    "cancel",
    "deny",
    "grant",
    "hear",
    "look_up_now",
    "observe",
    "order_resend",
    "reopen",
    "resolve",
    "resolve_request",
    "withdraw",
]


def grant(
    ref: str | UUID,
    *,
    by: Any,
    digest: str,
    comment: str = "",
    approval: str | UUID | None = None,
    revision: int | None = None,
) -> ExecutionSnapshot:
    """Approve an execution that waits for people; with the quorum's last vote it is sent.

    Args:
        ref: the execution.
        by: the person, as a user object.
        digest: of what they saw: the live approval's `digest` on their page.
        comment: their words.
        approval: which request for approval their page showed. A page says it, so that its second click never counts
            for a later request with the same contents; None: the newest with that digest.
        revision: the execution's that their page showed, so that nobody votes on an older page than they think: others
            may have voted or asked since; None: whatever it is now.

    Raises:
        NotEntitledError, StaleRevisionError, ApprovalError: see `transitions.grant`; nothing changed.
    """
    meant = _meant(ref, digest, approval)
    return _after(transitions.grant(meant, user=by, digest=digest, comment=comment, revision=revision))


def deny(
    ref: str | UUID,
    *,
    by: Any,
    digest: str,
    comment: str = "",
    approval: str | UUID | None = None,
    revision: int | None = None,
) -> ExecutionSnapshot:
    """Refuse an execution that waits for people. Args and errors as `grant`."""
    meant = _meant(ref, digest, approval)
    return _after(transitions.deny(meant, user=by, digest=digest, comment=comment, revision=revision))


def withdraw(ref: str | UUID, *, by: Any, reason: str = "", revision: int | None = None) -> ExecutionSnapshot:
    """Take back a request for approval, or a grant that was not used yet; only as it was at `revision`, if given.

    A user, by whatever name, must be one who asked for it, whose own approval it is, or who may cancel; any other text
    or `Actor` stands for a program that is trusted.

    Raises:
        NotEntitledError: this person may not; nothing changed.
        StaleRevisionError: it changed since.
        ApprovalError: it is spent or over.
    """
    _refuse_stranger(ref, by)
    return _after(transitions.withdraw(_live(ref, None), actor=_who(by), reason=reason, revision=revision))


def cancel(ref: str | UUID, *, by: Any, reason: str, revision: int | None = None) -> ExecutionSnapshot:
    """End an execution that was not sent; only as it was at `revision`, if given. Who may, as for `withdraw`.

    Raises:
        NotEntitledError: this person may not; nothing changed.
        StaleRevisionError: it changed since.
        WrongStateError: it is being sent, or was.
    """
    _refuse_stranger(ref, by)
    return _after(transitions.cancel(read_ref(ref), actor=_who(by), reason=reason, revision=revision))


def look_up_now(ref: str | UUID) -> ExecutionSnapshot:
    """Ask the provider now about an execution in doubt."""
    return background.look_up(read_ref(ref), now=True)


def resolve(
    ref: str | UUID,
    *,
    decision: str,
    revision: int,
    by: Any,
    reason: str,
    decision_id: str | None = None,
    evidence: dict[str, Any] | None = None,
    output: Any = None,
    reference: str = "",
) -> ExecutionSnapshot:
    """Settle an execution in doubt by a person's decision: applied, undone, not_applied or unknown.

    Args and errors: see `transitions.resolve`.
    """
    execution = transitions.resolve(
        read_ref(ref), decision=decision, revision=revision, decision_id=decision_id or uuid4().hex, actor=_who(by),
        reason=reason, evidence=evidence, output=output, reference=reference,
    )  # fmt: skip
    return _after(execution)


def reopen(
    ref: str | UUID, *, revision: int, by: Any, reason: str, decision_id: str | None = None
) -> ExecutionSnapshot:
    """Give an execution that waits for a person a new budget of look-ups."""
    execution = transitions.reopen(
        read_ref(ref), revision=revision, decision_id=decision_id or uuid4().hex, actor=_who(by), reason=reason
    )
    return _after(execution)


def resolve_request(
    ref: str | UUID,
    *,
    decision: str,
    revision: int,
    by: Any,
    reason: str,
    decision_id: str | None = None,
    answer: StoredAnswer | None = None,
) -> RequestSnapshot:
    """Close a protected request in doubt by a person's decision: applied, not_applied or unknown.

    Args and errors: see `transitions.resolve_request`.
    """
    return transitions.resolve_request(
        read_ref(ref), decision=decision, revision=revision, decision_id=decision_id or uuid4().hex, actor=_who(by),
        reason=reason, answer=answer,
    )  # fmt: skip


def order_resend(
    ref: str | UUID,
    *,
    revision: int,
    by: Any,
    reason: str,
    decision_id: str | None = None,
    confirm: str | int = "",
) -> ExecutionSnapshot:
    """Have something in doubt sent again, under the same provider key; others approve it where a rule demands that.

    Where none does, and what was found was at odds, `confirm` repeats its amount in minor units, or its key.
    """
    execution = transitions.order_resend(
        read_ref(ref), revision=revision, decision_id=decision_id or uuid4().hex, actor=_who(by), reason=reason,
        confirm=confirm,
    )  # fmt: skip
    return _after(execution)


def observe(
    ref: str | UUID,
    *,
    reference: str,
    evidence: dict[str, Any] | None = None,
    undone: bool = False,
    not_applied: bool = False,
    by: Any = None,
    reason: str = "",
    revision: int | None = None,
    decision_id: str | None = None,
) -> ExecutionSnapshot:
    """Keep outside evidence that an execution applied, or that it was undone: a webhook's, a statement's.

    A person's evidence names them (`by`) and has a reason. It is kept as their word, and may say `not_applied` too,
    against other people's words: see `transitions.bring_evidence`.

    Raises:
        TypeError: `reference` is no text, or `evidence` no dict; nothing was written.
        StaleRevisionError, WrongStateError: as there; or only a person could say so, and `by` is missing.
    """
    if not isinstance(reference, str) or not isinstance(evidence, (dict, type(None))):
        raise TypeError(
            "observe(ref, reference='po_77', evidence={'source': 'the statement of May'}) takes a text and a dict, not "
            f"{type(reference).__name__} and {type(evidence).__name__}"
        )
    if by is None:
        if not_applied or reason or revision is not None or decision_id is not None:
            raise WrongStateError(
                "by= is missing: reason=, revision=, decision_id= and not_applied= are for a person's evidence."
            )
        return _after(transitions.observe(read_ref(ref), reference=reference, evidence=evidence or {}, undone=undone))
    if undone and not_applied:
        raise WrongStateError("Evidence says either undone= or not_applied=, not both.")
    statement = "not_applied" if not_applied else "undone" if undone else "applied"
    execution = transitions.bring_evidence(
        read_ref(ref), statement=statement, actor=_who(by), reason=reason, reference=reference, revision=revision,
        decision_id=decision_id or uuid4().hex, evidence=evidence,
    )  # fmt: skip
    return _after(execution)


def hear(ref: str | UUID, news: transitions.News) -> ExecutionSnapshot | None:
    """Weigh what a provider tells by itself, as a webhook does: twice, late, out of order. None: nothing was new.

    Errors: see `transitions.hear`.
    """
    execution = transitions.hear(read_ref(ref), news)
    return None if execution is None else _after(execution)


def _who(by: Any) -> Actor:
    with reaching("telling who does it"):
        actor = actor_of(by, "by=")
    if actor is None:
        raise ApprovalError("by= is the person who does it.")
    return actor


def _refuse_stranger(ref: str | UUID, by: Any) -> None:
    """Refuse a user who has no part in an execution, by whatever name; a program is trusted.

    Requesters and votes are only added to, so no lock is needed.
    """
    actor = _who(by)
    person = by if is_user(by) else find_user(actor.id)
    if person is None and not actor.id.startswith(USER):
        return
    row = Execution.objects.filter(pk=read_ref(ref)).first()
    if row is None:
        raise ExecutionNotFoundError(f"There is no execution {ref}")
    reason = why_not_end(row, row.approvals.filter(state__in=values(APPROVAL_LIVE)), person)
    if reason:
        raise NotEntitledError(reason)


def _meant(ref: str | UUID, digest: str, approval: str | UUID | None) -> UUID:
    """Return the approval that a page showed, which is one of this execution."""
    if approval is None:
        return _live(ref, digest)
    shown = (
        Approval.objects.filter(pk=read_ref(approval), execution_id=read_ref(ref)).values_list("pk", flat=True).first()
    )
    if shown is None:
        raise ApprovalError("This approval is not one of this execution.")
    return shown


def _live(ref: str | UUID, digest: str | None) -> UUID:
    """Return the approval that is meant: the one with that digest, else the live one."""
    approvals = Approval.objects.filter(execution_id=read_ref(ref)).order_by("-created_at")
    if digest is not None:
        exact = approvals.filter(digest=digest).values_list("pk", flat=True).first()
        if exact is not None:
            return UUID(str(exact))
    live = approvals.filter(state__in=values(APPROVAL_LIVE)).values_list("pk", flat=True).first()
    found = live or approvals.values_list("pk", flat=True).first()
    if found is None:
        raise ApprovalError("Nobody was asked to approve this execution.")
    return found


def _after(execution: ExecutionSnapshot) -> ExecutionSnapshot:
    consequences.after_change(execution)
    if execution.due_at is not None and execution.state is not ExecutionState.ACCEPTED:
        send_hint(str(execution.id))
    return execution
