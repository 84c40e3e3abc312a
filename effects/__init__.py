"""django-effects: calls that change the outside world, recorded before they are sent.

Public names are imported on first use, so that `import effects` works before Django's apps are loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from effects._current import current as current
    from effects.calls import aget as aget
    from effects.calls import aperform as aperform
    from effects.calls import compensate as compensate
    from effects.calls import perform as perform
    from effects.calls import perform_later as perform_later
    from effects.calls import sending as sending
    from effects.calls import supersede as supersede
    from effects.effect import Effect as Effect
    from effects.effect import register as register
    from effects.exceptions import EffectsError as EffectsError
    from effects.exceptions import OutcomeError as OutcomeError
    from effects.failures import Declined as Declined
    from effects.failures import Doubt as Doubt
    from effects.failures import Forbidden as Forbidden
    from effects.failures import InvalidRequest as InvalidRequest
    from effects.failures import KeyReused as KeyReused
    from effects.failures import NotNow as NotNow
    from effects.failures import NotSent as NotSent
    from effects.failures import Stale as Stale
    from effects.failures import Unauthenticated as Unauthenticated
    from effects.http.decorators import idempotent as idempotent
    from effects.operations import NotFinished as NotFinished
    from effects.operators import cancel as cancel
    from effects.operators import deny as deny
    from effects.operators import grant as grant
    from effects.operators import look_up_now as look_up_now
    from effects.operators import observe as observe
    from effects.operators import order_resend as order_resend
    from effects.operators import reopen as reopen
    from effects.operators import resolve as resolve
    from effects.operators import withdraw as withdraw
    from effects.outcomes import Abandoned as Abandoned
    from effects.outcomes import Accepted as Accepted
    from effects.outcomes import AwaitingApproval as AwaitingApproval
    from effects.outcomes import Completed as Completed
    from effects.outcomes import Executing as Executing
    from effects.outcomes import Failed as Failed
    from effects.outcomes import NeedsIntervention as NeedsIntervention
    from effects.outcomes import Outcome as Outcome
    from effects.outcomes import PartiallyCompleted as PartiallyCompleted
    from effects.outcomes import Pending as Pending
    from effects.outcomes import Rejected as Rejected
    from effects.outcomes import Uncertain as Uncertain
    from effects.queries import await_ as await_
    from effects.queries import find as find
    from effects.queries import get as get
    from effects.queries import wait as wait
    from effects.secrets import Secret as Secret
    from effects.types import Actor as Actor
    from effects.types import Applied as Applied
    from effects.types import ApprovalRule as ApprovalRule
    from effects.types import Authoritative as Authoritative
    from effects.types import Context as Context
    from effects.types import Deduplication as Deduplication
    from effects.types import Eventual as Eventual
    from effects.types import InDoubt as InDoubt
    from effects.types import Item as Item
    from effects.types import Later as Later
    from effects.types import Partial as Partial
    from effects.types import Permit as Permit
    from effects.types import Proceed as Proceed
    from effects.types import Refuse as Refuse
    from effects.types import Retry as Retry
    from effects.types import Risk as Risk
    from effects.types import Submitted as Submitted
    from effects.types import Summary as Summary
    from effects.verdicts import Absent as Absent
    from effects.verdicts import Conflict as Conflict
    from effects.verdicts import Found as Found
    from effects.verdicts import Inconclusive as Inconclusive
    from effects.verdicts import InProgress as InProgress
    from effects.verdicts import ProvenFailed as ProvenFailed
    from effects.verdicts import Unreachable as Unreachable

_HOMES = {
    "_current": ("current",),
    "calls": ("aget", "aperform", "compensate", "perform", "perform_later", "sending", "supersede"),
    "effect": ("Effect", "register"),
    "exceptions": ("EffectsError", "OutcomeError"),
    "failures": (
        "Declined", "Doubt", "Forbidden", "InvalidRequest", "KeyReused", "NotNow", "NotSent", "Stale",
        "Unauthenticated",
    ),
    "http.decorators": ("idempotent",),
    "operations": ("NotFinished",),
    "operators": (
        "cancel", "deny", "grant", "look_up_now", "observe", "order_resend", "reopen", "resolve", "withdraw",
    ),
    "outcomes": (
        "Abandoned", "Accepted", "AwaitingApproval", "Completed", "Executing", "Failed", "NeedsIntervention",
        "Outcome", "PartiallyCompleted", "Pending", "Rejected", "Uncertain",
    ),
    "queries": ("await_", "find", "get", "wait"),
    "secrets": ("Secret",),
    "types": (
        "Actor", "Applied", "ApprovalRule", "Authoritative", "Context", "Deduplication", "Eventual", "InDoubt", "Item",
        "Later", "Partial", "Permit", "Proceed", "Refuse", "Retry", "Risk", "Submitted", "Summary",
    ),
    "verdicts": ("Absent", "Conflict", "Found", "InProgress", "Inconclusive", "ProvenFailed", "Unreachable"),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - mirrored by the names above, held together by a test


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'effects' has no attribute {name!r}")
    return getattr(import_module(f"effects.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
