"""Errors of django-effects, all under `EffectsError`.

Each has a stable `code`, and `effect_may_have_happened`: whether the outside world may have changed when it is
raised. The docstring's first line is the default message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from effects.vocabulary.outcomes import Outcome

__all__ = [
    "ActorError",
    "ApprovalError",
    "CapacityError",
    "CommitLostError",
    "CommitUnknownError",
    "DuplicatePerformError",
    "EffectDefinitionError",
    "EffectsError",
    "ExecutionNotFoundError",
    "FencedError",
    "JournalBesideError",
    "JournalIdError",
    "JournalNotMigratedError",
    "JournalUnavailableError",
    "KeyRequiredError",
    "LocalWriteError",
    "MarkedForRollbackError",
    "NameUnusableError",
    "NobodyEntitledError",
    "NotEntitledError",
    "OpenTransactionError",
    "OutcomeError",
    "OutcomeUnrecordedError",
    "OutputUnavailableError",
    "PayloadConflictError",
    "PayloadError",
    "PayloadUnreadableError",
    "PolicyChangedError",
    "RequestEndedError",
    "SecretGoneError",
    "SecretNotKeptError",
    "StaleRevisionError",
    "TooSoonError",
    "TroubleError",
    "UndeclaredEffectError",
    "WrongStateError",
]


class EffectsError(Exception):
    """Something about an effect could not be done."""

    code: ClassVar[str] = "effects_error"
    effect_may_have_happened: bool = False

    def __init__(self, message: str | None = None, **details: Any) -> None:
        first_line = (type(self).__doc__ or "").strip().splitlines()[0]
        super().__init__(message or first_line)
        self.details = details


class EffectDefinitionError(EffectsError, TypeError):
    """An effect is declared in a way that cannot work."""

    code = "effect_definition"


class PayloadError(EffectsError, ValueError):
    """A payload holds a value that cannot be recorded exactly.

    `path` names the value, as in `$.items[2].price`.
    """

    code = "payload_invalid"

    def __init__(self, message: str | None = None, *, path: str = "$") -> None:
        super().__init__(f"{path}: {message}" if message else None)
        self.path = path


class PayloadUnreadableError(EffectsError):
    """The recorded payload cannot be read: `upgrade` or the payload's class refuses it, or retention dropped it.

    Nothing is sent while that is so.
    """

    code = "payload_unreadable"


class SecretNotKeptError(EffectsError, ValueError):
    """A payload with a secret is sent by the call that brings it, or not at all; nothing was recorded."""

    code = "secret_not_kept"


class SecretGoneError(EffectsError, LookupError):
    """The secret is not here: the journal keeps none, so only the call that brought it could use it."""

    code = "secret_gone"


class PayloadConflictError(EffectsError):
    """This key already stands for another payload."""

    code = "payload_conflict"


class PolicyChangedError(EffectsError):
    """The effect's declaration changed while this execution is unsettled."""

    code = "operation_policy_changed"


class KeyRequiredError(EffectsError, ValueError):
    """An execution outside of a protected request needs `key=`."""

    code = "key_required"


class NameUnusableError(EffectsError, ValueError):
    """A name is empty, too long, or holds what PostgreSQL keeps in no text; nothing was recorded."""

    code = "name_unusable"


class ActorError(EffectsError, TypeError):
    """Where a person or a program is meant something else was passed, or a text that means two.

    Nothing was recorded.
    """

    code = "actor_unusable"


class DuplicatePerformError(EffectsError):
    """This request performs one effect twice without keys; give each its own `key=`."""

    code = "duplicate_perform"


class UndeclaredEffectError(EffectsError):
    """The view performs an effect that its `performs=` does not name."""

    code = "undeclared_effect"


class LocalWriteError(EffectsError):
    """The handler of a declared journaled view wrote rows outside of `finishing()`."""

    code = "local_write"


class CapacityError(EffectsError):
    """The tenant has too much open or in doubt."""

    code = "execution_capacity"


class OpenTransactionError(EffectsError, RuntimeError):
    """A provider cannot be called inside an open transaction; use `effects.perform_later` there."""

    code = "open_transaction"


class JournalBesideError(EffectsError, RuntimeError):
    """The journal is another database than the project's: rows of both cannot commit together."""

    code = "journal_beside"


class JournalIdError(EffectsError, RuntimeError):
    """The journal has no id, so that no provider key can be derived: `manage.py effects_journal_id` says what to do."""

    code = "journal_id"


class MarkedForRollbackError(EffectsError, RuntimeError):
    """The transaction was marked for rollback, so nothing of it was committed."""

    code = "marked_for_rollback"


class JournalUnavailableError(EffectsError):
    """The journal's database cannot be reached, or is too busy."""

    code = "execution_unavailable"


class JournalNotMigratedError(JournalUnavailableError):
    """The journal's tables are not there, or older than this code: run `manage.py migrate effects`."""

    code = "journal_not_migrated"


class CommitLostError(JournalUnavailableError):
    """COMMIT failed and the database says that the transaction was rolled back."""

    code = "commit_lost"


class CommitUnknownError(JournalUnavailableError):
    """COMMIT got no answer and the database does not say whether it happened."""

    code = "commit_unknown"


class OutcomeUnrecordedError(EffectsError):
    """The provider was called, and what became of it could not be recorded.

    The execution is open until its lease is past, and in doubt then; the sweeps find out. Do not repeat it under
    another key.
    """

    code = "outcome_unrecorded"
    effect_may_have_happened = True


class ExecutionNotFoundError(EffectsError, LookupError):
    """There is no such execution or request."""

    code = "not_found"


class WrongStateError(EffectsError):
    """This step is not possible in the present state."""

    code = "wrong_state"


class FencedError(WrongStateError):
    """The lease was taken over; a write under the older epoch is refused."""

    code = "fenced"


class RequestEndedError(FencedError):
    """The request has ended or was taken over; its handler may do nothing more."""

    code = "request_ended"


class StaleRevisionError(WrongStateError):
    """The row changed since it was read; read it again before deciding."""

    code = "stale_revision"


class TooSoonError(WrongStateError):
    """A request may still be under way at the provider; absence is no evidence yet."""

    code = "too_soon"


class TroubleError(EffectsError):
    """Working on an execution in the background raised; the message says what, cleaned and redacted."""

    code = "trouble"


class ApprovalError(EffectsError):
    """The approval cannot be given, refused or withdrawn."""

    code = "approval"


class NotEntitledError(ApprovalError):
    """This person may not decide this approval."""

    code = "not_entitled"


class NobodyEntitledError(ApprovalError):
    """Nobody can meet this approval rule."""

    code = "nobody_entitled"


class OutcomeError(EffectsError):
    """The effect has no output.

    Raised by `outcome.require()`. `outcome` says what is known; `code` follows its state.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.operation} {outcome.ref} is {outcome.state}: {outcome.describe()}")
        self.outcome = outcome
        self.effect_may_have_happened = outcome.may_have_applied

    @property
    def code(self) -> str:  # type: ignore[override]
        """The problem code that an HTTP client sees for this outcome."""
        return self.outcome.problem_code


class OutputUnavailableError(OutcomeError):
    """It happened, and its output cannot be had: retention dropped it, or this code cannot read it.

    Raised by `require()`, and by whatever is done with `outcome.output`. `why` is "expired" or "unreadable".
    """

    def __init__(self, outcome: Outcome, why: str, message: str) -> None:
        super().__init__(outcome)
        self.args = (f"{outcome.operation} {outcome.ref} is {outcome.state}, and {message}",)
        self.why = why
        self.effect_may_have_happened = True
