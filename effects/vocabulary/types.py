"""The values that an effect's declaration is made of, and what its methods are given and return. All frozen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from effects.vocabulary.exceptions import ActorError
from effects.vocabulary.names import LONGEST_NAME, UNSTORABLE, check_name, is_storable
from effects.vocabulary.states import Word

if TYPE_CHECKING:
    from effects.vocabulary.outcomes import Outcome

__all__ = [
    "Actor",
    "Applied",
    "ApprovalRule",
    "Authoritative",
    "Context",
    "Deduplication",
    "Eventual",
    "InDoubt",
    "Item",
    "Later",
    "Lookup",
    "Partial",
    "Permit",
    "Precondition",
    "Proceed",
    "Refuse",
    "Retry",
    "Risk",
    "SendResult",
    "Submitted",
    "Summary",
    "monotonic",
    "readable_instant",
    "within_calendar",
]

P = TypeVar("P")

#: The reading that send deadlines run on; CLOCK_BOOTTIME also counts the time that a machine slept.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def monotonic() -> float:
    """Return seconds on a clock that no one sets, suspended time included where the platform counts it."""
    return time.clock_gettime(_CLOCK)


#: No duration is longer, so that an instant that one is added to stays within the calendar.
LONGEST = timedelta(days=36_525)


def within_calendar(duration: timedelta) -> timedelta:
    """Return a duration of the project's, cut to 100 years either way."""
    return max(min(duration, LONGEST), -LONGEST)


def readable_instant(when: object) -> datetime | None:
    """Return an instant that a provider or the project's code named; None if it has no time zone or lies nowhere near.

    PostgreSQL keeps instants that Python cannot read back.
    """
    try:
        instant = when.astimezone(timezone.utc) if isinstance(when, datetime) and when.utcoffset() is not None else None
    except Exception:  # noqa: BLE001 - beyond the calendar, or a time zone of foreign code
        return None
    return instant if instant is not None and 1900 <= instant.year < 9000 else None


def _check_duration(what: str, duration: object, least: timedelta = timedelta(0)) -> None:
    if not isinstance(duration, timedelta) or not least <= duration <= LONGEST:
        more = "zero" if not least else "more than zero"
        raise ValueError(f"{what} takes a timedelta from {more} to 100 years, not {duration!r}")


class Risk(Word):
    """How much a wrong send costs. Project rules (`RISK_RULES`) tighten by it."""

    LOW = "low"
    HIGH = "high"


class InDoubt(Word):
    """What becomes of an execution that no look-up can decide."""

    ESCALATE = "escalate"
    ABANDON = "abandon"


@dataclass(frozen=True)
class Lookup:
    """How far a look-up's "not found" can be believed: `quiet` is how long a request may still land after its end."""

    quiet: timedelta

    def __post_init__(self) -> None:
        _check_duration(f"{type(self).__name__}(quiet=…)", self.quiet)


@dataclass(frozen=True)
class Eventual(Lookup):
    """A look-up that may lag: absence is believed after the quiet time, never of something accepted."""

    quiet: timedelta = timedelta(minutes=5)


@dataclass(frozen=True)
class Authoritative(Lookup):
    """A look-up that reads what the provider itself acts on; absence of something accepted is believed too."""

    quiet: timedelta = timedelta(seconds=30)


@dataclass(frozen=True)
class Deduplication:
    """The provider attests that one key applies at most once within `lifetime` of its first use."""

    lifetime: timedelta

    def __post_init__(self) -> None:
        _check_duration("Deduplication(lifetime=…)", self.lifetime, timedelta.resolution)


@dataclass(frozen=True)
class Retry:
    """How refusals that prove "not applied, try later" are repeated.

    `attempts` counts over the execution's life; delays double from `first` to `ceiling`, with jitter in [d/2, d]. A
    provider's own `retry_after` is a floor that may exceed the ceiling.
    """

    attempts: int = 5
    first: timedelta = timedelta(seconds=1)
    ceiling: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or self.attempts < 1:
            raise ValueError("Retry(attempts=…) is at least 1: the first send counts")
        _check_duration("Retry(first=…)", self.first)
        _check_duration("Retry(ceiling=…)", self.ceiling)


@dataclass(frozen=True)
class Actor:
    """A person or a program, as text: it outlives the account. `label` is what people read, cut to 255 characters.

    Raises:
        NameUnusableError: the id is empty, longer than 255 characters, or holds NUL.
    """

    id: str
    label: str = ""

    def __post_init__(self) -> None:
        check_name("the id of an Actor", self.id)
        if not is_storable(self.label):
            # for people to read alone: no reason to refuse what the person does
            object.__setattr__(self, "label", UNSTORABLE.sub("", str(self.label))[:LONGEST_NAME])

    @classmethod
    def of(cls, who: Any) -> Actor | None:
        """Return the actor for a user, an actor, a name or None (also for an anonymous or unsaved user).

        A text is taken as it is: that it may be the name of a user, whoever records it finds out.

        Raises:
            ActorError: it is none of these, such as a user's number.
        """
        if who is None or isinstance(who, Actor):
            return who
        if isinstance(who, str):
            # an empty header or setting names nobody
            return cls(who, who) if who.strip() else None
        if not hasattr(who, "pk") and not hasattr(who, "is_anonymous"):
            raise ActorError(f"{who!r:.80} is a {type(who).__name__}, not a user, an Actor or a text")
        if getattr(who, "is_anonymous", False) or getattr(who, "pk", None) is None:
            return None
        return cls(f"user:{who.pk}", str(who.get_username()) if hasattr(who, "get_username") else str(who))

    def as_json(self) -> dict[str, str]:
        """Return the form in which the journal keeps it."""
        return {"id": self.id, "label": self.label or self.id}

    def __str__(self) -> str:
        return self.label or self.id


@dataclass(frozen=True)
class ApprovalRule:
    """Who must agree before a send, and within which times. Frozen on the execution and part of its digest.

    Args:
        approvers: whom to ask, as text: a permission `app.codename`, held for everything or for the object that the
            execution is `about`; `group:Finance`, the members of a group; or `call:shop.approvers.managers`, a function
            that is given the `Context` and returns the users. Joined by " & ", everybody who decides meets all of them.
        quorum: how many distinct people.
        decide_within: after that the request for approval expires.
        use_within: after the grant (or `not_before`), the licence lapses unused.
        not_before: the earliest send.
        four_eyes: nobody approves what they asked for, or what was asked for on their behalf.
        covers_retries: the licence is worth sends until one is not proven absent; otherwise worth one send.
        recheck_approvers: who agreed must still be entitled when it is sent; otherwise the licence lapses.
    """

    approvers: str
    quorum: int = 1
    decide_within: timedelta = timedelta(days=7)
    use_within: timedelta = timedelta(days=1)
    not_before: datetime | None = None
    four_eyes: bool = True
    covers_retries: bool = False
    recheck_approvers: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.approvers, str) or not all(_names_people(term) for term in self.terms):
            raise ValueError(
                f"ApprovalRule(approvers=…) is a permission such as 'payments.approve_refund', 'group:Finance', or "
                f"'call:shop.approvers.managers'; several are joined by ' & '. It is {self.approvers!r:.80}"
            )
        if len(self.approvers) > MAX_APPROVERS:
            raise ValueError(f"ApprovalRule(approvers=…) is a text of at most {MAX_APPROVERS} characters")
        if not isinstance(self.quorum, int) or self.quorum < 1:
            raise ValueError("ApprovalRule(quorum=…) is at least 1")
        _check_duration("ApprovalRule(decide_within=…)", self.decide_within, timedelta.resolution)
        _check_duration("ApprovalRule(use_within=…)", self.use_within, timedelta.resolution)
        if self.not_before is not None and readable_instant(self.not_before) is None:
            raise ValueError("ApprovalRule(not_before=…) needs a time zone, and lies before the year 9000")

    @property
    def terms(self) -> tuple[str, ...]:
        """What everybody who decides meets: permissions, groups, functions."""
        return tuple(part.strip() for part in self.approvers.split("&"))

    @property
    def functions(self) -> tuple[str, ...]:
        """The dotted paths of the functions among the terms."""
        return tuple(term.removeprefix(CALL) for term in self.terms if term.startswith(CALL))

    def tightened(self, other: ApprovalRule | None) -> ApprovalRule:
        """Return the rule under which both hold."""
        if other is None:
            return self
        later = [instant for instant in (self.not_before, other.not_before) if instant is not None]
        return ApprovalRule(
            approvers=" & ".join(dict.fromkeys((*self.terms, *other.terms))),
            quorum=max(self.quorum, other.quorum),
            decide_within=min(self.decide_within, other.decide_within),
            use_within=min(self.use_within, other.use_within),
            not_before=max(later) if later else None,
            four_eyes=self.four_eyes or other.four_eyes,
            covers_retries=self.covers_retries and other.covers_retries,
            recheck_approvers=self.recheck_approvers or other.recheck_approvers,
        )


#: What the terms of `ApprovalRule.approvers` begin with that are no permissions.
GROUP, CALL = "group:", "call:"
#: The column's width.
MAX_APPROVERS = 255


def _names_people(term: str) -> bool:
    if term.startswith(GROUP):
        return bool(term.removeprefix(GROUP).strip())
    app, dot, name = term.removeprefix(CALL).partition(".")
    return bool(app and dot and name) and not any(letter.isspace() or letter == ":" for letter in app + name)


@dataclass(frozen=True)
class Summary:
    """What people are shown before they decide. `amount` counts minor units of `currency`."""

    title: str
    facts: dict[str, str] = field(default_factory=dict)
    amount: int | None = None
    currency: str = ""
    target: str = ""


#: The relations of a derived execution: it undoes the other one, or asks for it again.
COMPENSATES, SUPERSEDES = "compensates", "supersedes"


@dataclass(frozen=True)
class Predecessor:
    """What an execution is derived from: the relation, the other one's ref, and that one in words, as it stood then."""

    relation: str
    ref: str
    text: str


@dataclass(frozen=True)
class Permit:
    """The licence for one request to the provider: send under `provider_key`, before `deadline`.

    `deadline` is on `monotonic()`; `remaining()` is what a client's timeout should be set to.
    """

    attempt: UUID
    number: int
    epoch: int
    provider_key: str
    deadline: float

    def remaining(self) -> timedelta:
        """Return the time left to the deadline, zero when it has passed."""
        return timedelta(seconds=max(0.0, self.deadline - monotonic()))


@dataclass(frozen=True)
class Context(Generic[P]):
    """What an effect's methods know of the execution they work for."""

    ref: str
    operation: str
    payload: P
    tenant: str
    key: str
    provider_key: str
    requested_by: Actor | None
    on_behalf_of: Actor | None
    attempt: int
    reference: str
    about: tuple[str, str] | None
    previous: Outcome | None = None
    token: Any = field(default=None, repr=False)
    compensates: str | None = None
    derived_from: tuple[Predecessor, ...] = ()


@dataclass(frozen=True)
class Applied:
    """The provider's answer is itself the proof that it happened."""

    # not in repr, here and below: what a provider said is shown after it was redacted, not before
    output: Any = field(default=None, repr=False)
    reference: str = ""


@dataclass(frozen=True)
class Item:
    """One part of an itemised effect."""

    key: str
    applied: bool
    reference: str = ""
    code: str = ""
    message: str = field(default="", repr=False)


@dataclass(frozen=True)
class Partial:
    """Some items were applied and others were refused; nothing is in doubt."""

    items: Sequence[Item]
    output: Any = field(default=None, repr=False)
    reference: str = ""


@dataclass(frozen=True)
class Submitted:
    """The provider took the order and will carry it out; only a look-up can prove it."""

    reference: str = ""
    expect_by: datetime | None = None


@dataclass(frozen=True)
class Proceed:
    """The precondition holds. `token` reaches `send` as `context.token`."""

    token: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Refuse:
    """The precondition does not hold and will not: end without sending."""

    reason: str


@dataclass(frozen=True)
class Later:
    """The precondition does not hold yet; ask again `after`."""

    after: timedelta
    reason: str = ""


SendResult = Applied | Partial | Submitted
Precondition = Proceed | Refuse | Later
