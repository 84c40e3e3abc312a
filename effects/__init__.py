"""django-effects: calls that change the outside world, recorded before they are sent.

Public names are imported on first use, so that `import effects` works before Django's apps are loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from effects.declarations.effect import Effect as Effect
    from effects.declarations.effect import register as register
    from effects.declarations.operations import NotFinished as NotFinished
    from effects.http.decorators import idempotent as idempotent
    from effects.journal.current import current as current
    from effects.journal.queries import await_ as await_
    from effects.journal.queries import find as find
    from effects.journal.queries import get as get
    from effects.journal.queries import wait as wait
    from effects.runtime.operators import cancel as cancel
    from effects.runtime.operators import deny as deny
    from effects.runtime.operators import grant as grant
    from effects.runtime.operators import look_up_now as look_up_now
    from effects.runtime.operators import observe as observe
    from effects.runtime.operators import order_resend as order_resend
    from effects.runtime.operators import reopen as reopen
    from effects.runtime.operators import resolve as resolve
    from effects.runtime.operators import withdraw as withdraw
    from effects.runtime.perform import aget as aget
    from effects.runtime.perform import aperform as aperform
    from effects.runtime.perform import compensate as compensate
    from effects.runtime.perform import perform as perform
    from effects.runtime.perform import perform_later as perform_later
    from effects.runtime.perform import sending as sending
    from effects.runtime.perform import supersede as supersede
    from effects.vocabulary.exceptions import ActorError as ActorError
    from effects.vocabulary.exceptions import ApprovalError as ApprovalError
    from effects.vocabulary.exceptions import CapacityError as CapacityError
    from effects.vocabulary.exceptions import CommitLostError as CommitLostError
    from effects.vocabulary.exceptions import CommitUnknownError as CommitUnknownError
    from effects.vocabulary.exceptions import DuplicatePerformError as DuplicatePerformError
    from effects.vocabulary.exceptions import EffectDefinitionError as EffectDefinitionError
    from effects.vocabulary.exceptions import EffectsError as EffectsError
    from effects.vocabulary.exceptions import ExecutionNotFoundError as ExecutionNotFoundError
    from effects.vocabulary.exceptions import FencedError as FencedError
    from effects.vocabulary.exceptions import JournalBesideError as JournalBesideError
    from effects.vocabulary.exceptions import JournalIdError as JournalIdError
    from effects.vocabulary.exceptions import JournalNotMigratedError as JournalNotMigratedError
    from effects.vocabulary.exceptions import JournalUnavailableError as JournalUnavailableError
    from effects.vocabulary.exceptions import KeyRequiredError as KeyRequiredError
    from effects.vocabulary.exceptions import LocalWriteError as LocalWriteError
    from effects.vocabulary.exceptions import MarkedForRollbackError as MarkedForRollbackError
    from effects.vocabulary.exceptions import NameUnusableError as NameUnusableError
    from effects.vocabulary.exceptions import NobodyEntitledError as NobodyEntitledError
    from effects.vocabulary.exceptions import NotEntitledError as NotEntitledError
    from effects.vocabulary.exceptions import OpenTransactionError as OpenTransactionError
    from effects.vocabulary.exceptions import OutcomeError as OutcomeError
    from effects.vocabulary.exceptions import OutcomeUnrecordedError as OutcomeUnrecordedError
    from effects.vocabulary.exceptions import OutputUnavailableError as OutputUnavailableError
    from effects.vocabulary.exceptions import PayloadConflictError as PayloadConflictError
    from effects.vocabulary.exceptions import PayloadError as PayloadError
    from effects.vocabulary.exceptions import PayloadUnreadableError as PayloadUnreadableError
    from effects.vocabulary.exceptions import PolicyChangedError as PolicyChangedError
    from effects.vocabulary.exceptions import RequestEndedError as RequestEndedError
    from effects.vocabulary.exceptions import SecretGoneError as SecretGoneError
    from effects.vocabulary.exceptions import SecretNotKeptError as SecretNotKeptError
    from effects.vocabulary.exceptions import StaleRevisionError as StaleRevisionError
    from effects.vocabulary.exceptions import TooSoonError as TooSoonError
    from effects.vocabulary.exceptions import TroubleError as TroubleError
    from effects.vocabulary.exceptions import UndeclaredEffectError as UndeclaredEffectError
    from effects.vocabulary.exceptions import WrongStateError as WrongStateError
    from effects.vocabulary.failures import Declined as Declined
    from effects.vocabulary.failures import Doubt as Doubt
    from effects.vocabulary.failures import Forbidden as Forbidden
    from effects.vocabulary.failures import InvalidRequest as InvalidRequest
    from effects.vocabulary.failures import KeyReused as KeyReused
    from effects.vocabulary.failures import NotNow as NotNow
    from effects.vocabulary.failures import NotSent as NotSent
    from effects.vocabulary.failures import Stale as Stale
    from effects.vocabulary.failures import Unauthenticated as Unauthenticated
    from effects.vocabulary.outcomes import Abandoned as Abandoned
    from effects.vocabulary.outcomes import Accepted as Accepted
    from effects.vocabulary.outcomes import AwaitingApproval as AwaitingApproval
    from effects.vocabulary.outcomes import Completed as Completed
    from effects.vocabulary.outcomes import Executing as Executing
    from effects.vocabulary.outcomes import Failed as Failed
    from effects.vocabulary.outcomes import NeedsIntervention as NeedsIntervention
    from effects.vocabulary.outcomes import Outcome as Outcome
    from effects.vocabulary.outcomes import PartiallyCompleted as PartiallyCompleted
    from effects.vocabulary.outcomes import Pending as Pending
    from effects.vocabulary.outcomes import Rejected as Rejected
    from effects.vocabulary.outcomes import Uncertain as Uncertain
    from effects.vocabulary.secrets import Secret as Secret
    from effects.vocabulary.states import ExecutionState as ExecutionState
    from effects.vocabulary.states import RequestState as RequestState
    from effects.vocabulary.types import Actor as Actor
    from effects.vocabulary.types import Applied as Applied
    from effects.vocabulary.types import ApprovalRule as ApprovalRule
    from effects.vocabulary.types import Authoritative as Authoritative
    from effects.vocabulary.types import Context as Context
    from effects.vocabulary.types import Deduplication as Deduplication
    from effects.vocabulary.types import Eventual as Eventual
    from effects.vocabulary.types import InDoubt as InDoubt
    from effects.vocabulary.types import Item as Item
    from effects.vocabulary.types import Later as Later
    from effects.vocabulary.types import Partial as Partial
    from effects.vocabulary.types import Permit as Permit
    from effects.vocabulary.types import Proceed as Proceed
    from effects.vocabulary.types import Refuse as Refuse
    from effects.vocabulary.types import Retry as Retry
    from effects.vocabulary.types import Risk as Risk
    from effects.vocabulary.types import Submitted as Submitted
    from effects.vocabulary.types import Summary as Summary
    from effects.vocabulary.verdicts import Absent as Absent
    from effects.vocabulary.verdicts import Conflict as Conflict
    from effects.vocabulary.verdicts import Found as Found
    from effects.vocabulary.verdicts import Inconclusive as Inconclusive
    from effects.vocabulary.verdicts import InProgress as InProgress
    from effects.vocabulary.verdicts import ProvenFailed as ProvenFailed
    from effects.vocabulary.verdicts import Unreachable as Unreachable

_HOMES = {
    "declarations.effect": ("Effect", "register"),
    "declarations.operations": ("NotFinished",),
    "http.decorators": ("idempotent",),
    "journal.current": ("current",),
    "journal.queries": ("await_", "find", "get", "wait"),
    "runtime.operators": (
        "cancel", "deny", "grant", "look_up_now", "observe", "order_resend", "reopen", "resolve", "withdraw",
    ),
    "runtime.perform": ("aget", "aperform", "compensate", "perform", "perform_later", "sending", "supersede"),
    "vocabulary.exceptions": (
        "ActorError", "ApprovalError", "CapacityError", "CommitLostError", "CommitUnknownError",
        "DuplicatePerformError", "EffectDefinitionError", "EffectsError", "ExecutionNotFoundError", "FencedError",
        "JournalBesideError", "JournalIdError", "JournalNotMigratedError", "JournalUnavailableError",
        "KeyRequiredError", "LocalWriteError",
        "MarkedForRollbackError", "NameUnusableError", "NobodyEntitledError", "NotEntitledError",
        "OpenTransactionError", "OutcomeError", "OutcomeUnrecordedError", "OutputUnavailableError",
        "PayloadConflictError", "PayloadError", "PayloadUnreadableError", "PolicyChangedError", "RequestEndedError",
        "SecretGoneError", "SecretNotKeptError", "StaleRevisionError", "TooSoonError", "TroubleError",
        "UndeclaredEffectError", "WrongStateError",
    ),
    "vocabulary.failures": (
        "Declined", "Doubt", "Forbidden", "InvalidRequest", "KeyReused", "NotNow", "NotSent", "Stale",
        "Unauthenticated",
    ),
    "vocabulary.outcomes": (
        "Abandoned", "Accepted", "AwaitingApproval", "Completed", "Executing", "Failed", "NeedsIntervention", "Outcome",
        "PartiallyCompleted", "Pending", "Rejected", "Uncertain",
    ),
    "vocabulary.secrets": ("Secret",),
    "vocabulary.states": ("ExecutionState", "RequestState"),
    "vocabulary.types": (
        "Actor", "Applied", "ApprovalRule", "Authoritative", "Context", "Deduplication", "Eventual", "InDoubt", "Item",
        "Later", "Partial", "Permit", "Proceed", "Refuse", "Retry", "Risk", "Submitted", "Summary",
    ),
    "vocabulary.verdicts": (
        "Absent", "Conflict", "Found", "InProgress", "Inconclusive", "ProvenFailed", "Unreachable",
    ),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - mirrored by the names above, held together by a test


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'effects' has no attribute {name!r}")
    return getattr(import_module(f"effects.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
