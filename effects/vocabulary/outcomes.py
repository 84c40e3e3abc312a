"""What `perform`, `get` and `wait` answer: one frozen class per case.

Every outcome has `ref`, `operation`, `state`, `settled`, `may_have_applied` and `require()`, which returns the output
or raises an `OutcomeError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, NoReturn

from effects.vocabulary.exceptions import OutcomeError, OutputUnavailableError
from effects.vocabulary.states import ExecutionState
from effects.vocabulary.types import Item

__all__ = [
    "Abandoned",
    "Accepted",
    "AwaitingApproval",
    "Completed",
    "Executing",
    "Failed",
    "MissingOutput",
    "NeedsIntervention",
    "Outcome",
    "PartiallyCompleted",
    "Pending",
    "Rejected",
    "Uncertain",
]


@dataclass(frozen=True)
class Outcome:
    """What is known of one execution."""

    ref: str
    operation: str
    may_have_applied: bool = False

    state: ClassVar[ExecutionState]
    settled: ClassVar[bool] = False
    #: What an HTTP client is told when the outcome has no output, and under which status.
    problem_code: ClassVar[str] = "operation_uncertain"
    problem_status: ClassVar[int] = 409

    def describe(self) -> str:
        """Return one line for logs and errors."""
        return "in doubt" if self.may_have_applied else "not settled"

    def require(self) -> Any:
        """Return the output.

        Raises:
            OutcomeError: there is none; `effect_may_have_happened` and `code` say what that means.
        """
        raise OutcomeError(self)


class MissingOutput:
    """Stands in `outcome.output` for an output that cannot be had; whatever is done with it raises.

    A comparison too: it would be a silent "another output". It equals only another one of its kind, so that outcomes
    can be compared, and can be printed, copied and pickled with them. Python lets nobody answer for `is` and for
    `isinstance`: who has to tell uses `require()`.

    Attributes:
        why: "expired" (retention dropped it) or "unreadable" (this code cannot read it).
        message: the same in words.
    """

    def __init__(self, why: str, message: str) -> None:
        self.why, self.message = why, message
        self._outcome: Any = None

    def belongs_to(self, outcome: Any) -> None:
        """Say whose output it is."""
        self._outcome = outcome

    def error(self) -> OutputUnavailableError:
        """Return what `require()` raises."""
        return OutputUnavailableError(self._outcome, self.why, self.message)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # copy, pickle and inspection ask for these, and are told the truth
            raise AttributeError(name)
        raise self.error()

    def _refuse(self, *_arguments: object) -> NoReturn:
        raise self.error()

    __bool__ = __getitem__ = __iter__ = __len__ = __contains__ = __call__ = __int__ = __str__ = __format__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MissingOutput):
            raise self.error()
        return (self.why, self.message) == (other.why, other.message)

    def __hash__(self) -> int:
        return hash((self.why, self.message))

    def __repr__(self) -> str:
        return f"<no output: {self.message}>"


class _WithOutput:
    """An outcome with an output, or with a `MissingOutput` that knows whose it is."""

    output: Any

    def __post_init__(self) -> None:
        if isinstance(self.output, MissingOutput):
            self.output.belongs_to(self)


@dataclass(frozen=True)
class Completed(_WithOutput, Outcome):
    """It happened, and we hold the proof; or `unchecked_word_of` a person, which no program has checked."""

    output: Any = None
    reference: str = ""
    unchecked_word_of: str = ""
    state = ExecutionState.COMPLETED
    settled = True
    problem_code = "operation_result_unavailable"

    def describe(self) -> str:
        """Return one line for logs and errors."""
        told = f"completed as {self.reference or 'unnamed'}"
        return f"{told}, by the unchecked word of {self.unchecked_word_of}" if self.unchecked_word_of else told

    def require(self) -> Any:
        """Return the output.

        Raises:
            OutputUnavailableError: retention dropped it, or this code cannot read it; it happened all the same.
        """
        if isinstance(self.output, MissingOutput):
            raise self.output.error()
        return self.output


@dataclass(frozen=True)
class PartiallyCompleted(_WithOutput, Outcome):
    """Some items happened, the others did not; nothing is in doubt."""

    items: Sequence[Item] = ()
    output: Any = None
    reference: str = ""
    state = ExecutionState.PARTIALLY_COMPLETED
    settled = True
    problem_code = "operation_result_unavailable"

    def describe(self) -> str:
        """Return one line for logs and errors."""
        return f"{sum(item.applied for item in self.items)} of {len(self.items)} items applied"


@dataclass(frozen=True)
class Failed(Outcome):
    """It did not happen, over all attempts."""

    code: str = ""
    message: str = ""
    state = ExecutionState.FAILED
    settled = True
    problem_code = "operation_not_applied"

    def describe(self) -> str:
        """Return one line for logs and errors."""
        return f"not applied ({self.code}) {self.message}".rstrip()


@dataclass(frozen=True)
class Rejected(Outcome):
    """It was never sent: people or a precondition refused it. `message` is theirs, where they left one."""

    reason: str = ""
    message: str = ""
    state = ExecutionState.REJECTED
    settled = True
    problem_code = "operation_rejected"

    def describe(self) -> str:
        """Return one line for logs and errors."""
        return f"never sent ({self.reason}) {self.message}".rstrip()


@dataclass(frozen=True)
class Abandoned(Outcome):
    """Nobody will know whether it happened."""

    reason: str = ""
    state = ExecutionState.ABANDONED
    settled = True
    problem_code = "operation_resolved"


@dataclass(frozen=True)
class Pending(Outcome):
    """It will be sent at `due_at`."""

    due_at: datetime | None = None
    state = ExecutionState.PENDING
    problem_code = "operation_pending"
    problem_status = 202


@dataclass(frozen=True)
class AwaitingApproval(Outcome):
    """People must decide by `decide_by`."""

    decide_by: datetime | None = None
    state = ExecutionState.AWAITING_APPROVAL
    problem_code = "operation_awaiting_approval"
    problem_status = 202

    def describe(self) -> str:
        """Return one line for logs and errors."""
        return f"waits for approval until {self.decide_by}"


@dataclass(frozen=True)
class Executing(Outcome):
    """A permitted send is under way, so that it may have happened already."""

    state = ExecutionState.EXECUTING
    problem_code = "operation_pending"
    problem_status = 202


@dataclass(frozen=True)
class Accepted(Outcome):
    """The provider took the order; proof is expected by `expect_by`."""

    expect_by: datetime | None = None
    reference: str = ""
    state = ExecutionState.ACCEPTED
    problem_code = "operation_accepted"
    problem_status = 202


@dataclass(frozen=True)
class Uncertain(Outcome):
    """It may have happened; look-ups are under way. `message` says in words how the send failed, where it raised."""

    reason: str = ""
    message: str = ""
    state = ExecutionState.UNCERTAIN

    def describe(self) -> str:
        """Return one line for logs and errors."""
        return f"in doubt: {self.message}" if self.message else "in doubt"


@dataclass(frozen=True)
class NeedsIntervention(Outcome):
    """It may have happened, and a person must decide. `message` says in words how the send failed, where it raised."""

    reason: str = ""
    message: str = ""
    state = ExecutionState.NEEDS_INTERVENTION

    def describe(self) -> str:
        """Return one line for logs and errors."""
        return f"in doubt: {self.message}" if self.message else "in doubt"
