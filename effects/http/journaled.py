"""A journaled view: opened in a commit of its own, run outside of any transaction, answered in another commit."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext

from django.db import Error
from django.http.response import HttpResponseBase

from effects import transitions
from effects.declarations.operations import StoredAnswer
from effects.http import leases
from effects.http.answers import answer, store, unavailable
from effects.http.calls import OURS, Call, HandlerNotFinishedError
from effects.http.problems import CODES, problem
from effects.http.protection import Protection
from effects.http.replay import Compare, Run, begin, close_lost, decide
from effects.http.statements import ReadOnly, is_broken, marked_for_rollback
from effects.journal import queries
from effects.journal.commits import journal, reaching
from effects.journal.current import RequestHandle, in_request
from effects.journal.faults import reach
from effects.journal.logs import get_logger
from effects.journal.snapshots import RequestSnapshot
from effects.transitions import Opened, Opening
from effects.vocabulary.exceptions import (
    EffectsError,
    JournalUnavailableError,
    OutcomeError,
    OutcomeUnrecordedError,
    RequestEndedError,
)
from effects.vocabulary.states import RequestState

__all__ = ["run_journaled"]

log = get_logger("effects.http")

#: Waits before an answer is written again that the database did not take; the client waits meanwhile.
WRITE_WAITS = (0.1, 0.5, 2.0)


def run_journaled(protection: Protection, call: Call, opening: Opening, compare: Compare) -> HttpResponseBase:
    """*Commits.* Run the view once for its key, outside of any transaction, or answer what is known of the key."""
    try:
        decision = begin(opening, compare=compare, wait=protection.wait)
    except JournalUnavailableError:
        log.exception("%s could not be recorded.", opening.operation)
        call.not_executed("execution_unavailable")
        return unavailable()
    if not isinstance(decision, Run):
        call.not_executed(decision.code)
        return answer(decision, call.request)
    run = _Run(protection, call, decision.opened, opening)
    leases.hold(run.handle.id, run.handle.epoch, run.handle.tenant)
    try:
        return run.respond()
    except JournalUnavailableError:
        log.exception("Request %s stays as it is; its lease will run out.", run.handle.id)
        return unavailable()
    finally:
        leases.let_go(run.handle.id)


class _Run:
    """One run of a journaled view."""

    def __init__(self, protection: Protection, call: Call, opened: Opened, opening: Opening) -> None:
        self.protection, self.call = protection, call
        self.handle = RequestHandle(
            id=opened.row.pk, epoch=opened.row.epoch, operation=protection.operation, tenant=opening.tenant,
            subject=opening.subject, actor=opening.actor,
        )  # fmt: skip

    def respond(self) -> HttpResponseBase:
        """Run the handler, record how it ended, and return what the client is told.

        The handler's own bytes are returned only if they were frozen, or are an error that nothing was stored of.
        """
        handle = self.handle
        try:
            with in_request(handle), self._guard():
                reach("handler.started")
                response, _ = self.call.respond(passes=OURS, undo=handle.close)
            reach("handler.returned")
            return self._record(response)
        except (OutcomeError, HandlerNotFinishedError) as error:
            handle.close(error)
            return self._cut_short(error)
        except RequestEndedError as error:
            handle.close(error)
            return self._as_it_stands()
        except (JournalUnavailableError, OutcomeUnrecordedError) as error:
            handle.close(error)
            log.exception("Request %s: the journal is out of reach.", handle.id)
            return self._cut_short(error)
        except BaseException as error:  # an interrupt too: the request must not stay running
            handle.close(error)
            self._abort(error)
            raise

    def _guard(self) -> AbstractContextManager[object]:
        operation = self.protection.operation
        if operation.performs is None or operation.local_writes:
            return nullcontext()
        return journal().execute_wrapper(ReadOnly(self.handle))

    def _record(self, response: HttpResponseBase) -> HttpResponseBase:
        """Freeze the answer, free the key, or give the request up, by the answer's status."""
        handle, status = self.handle, response.status_code
        wish = self.protection.wish(response, handle) if status >= 400 or handle.wants_release else None
        if status >= 500 and wish is not True:
            error = _ServerError(status)
            handle.close(error)
            self._abort(error)
            return response
        if (status >= 400 or wish is False) and wish is not True and self._release():
            return response
        return self._freeze(response)

    def _release(self) -> bool:
        """Free the key where nothing was or can be sent and nothing was written."""
        handle, operation = self.handle, self.protection.operation
        provable = operation.performs is not None and not operation.local_writes
        if handle.block is not None or not (provable or handle.wants_release):
            return False
        return transitions.release(handle.id, epoch=handle.epoch, asked=handle.wants_release) is not None

    def _freeze(self, response: HttpResponseBase) -> HttpResponseBase:
        """Store the answer, with the rows of `finishing()` in one commit; or wait for what holds it back."""
        stored, handle = store(response), self.handle
        if handle.block is None:
            found = self._conclude(stored)
        else:
            if is_broken(journal()):
                raise marked_for_rollback()
            with reaching("answering a request"):
                found = transitions.conclude(handle.id, epoch=handle.epoch, answer=stored, joins=True)
            handle.close()
        if found.state is RequestState.ANSWERED:
            return response if stored.missing else self.call.stored(response)
        return answer(decide(found), self.call.request, replayed=False)

    def _conclude(self, stored: StoredAnswer) -> RequestSnapshot:
        """*Commits.* Write the answer, again if the database does not take it.

        An answer that was committed after all is met as ended, and goes out as it stands.
        """
        for wait in WRITE_WAITS:
            try:
                return transitions.conclude(self.handle.id, epoch=self.handle.epoch, answer=stored)
            except JournalUnavailableError:  # noqa: PERF203 - each try is a commit
                if journal().in_atomic_block:
                    raise
                log.exception("The answer of %s cannot be recorded yet; trying again in %s s.", self.handle.id, wait)
                # the database is away and nothing announces its return
                time.sleep(wait)
        return transitions.conclude(self.handle.id, epoch=self.handle.epoch, answer=stored)

    def _cut_short(self, error: EffectsError) -> HttpResponseBase:
        """Answer `require()`, `NotFinished` or a journal out of reach: by `answer=` where it can, else as it stands."""
        handle = self.handle
        try:
            found = close_lost(handle.id, epoch=handle.epoch, asked=handle.wants_release, why=_why(error))
        except RequestEndedError:
            return self._as_it_stands()
        if found.state is RequestState.RELEASED and isinstance(error, OutcomeError) and error.code in CODES:
            # nothing was sent and the key is free; the client is told what the outcome was
            return problem(error.code, operation_ref=found.ref, operation_state=str(error.outcome.state))
        return answer(decide(found), self.call.request, replayed=False)

    def _as_it_stands(self) -> HttpResponseBase:
        """Answer by the row: another has taken the request over, and the handler's bytes would be a lie."""
        with reaching("reading a request"):
            found = queries.get_request(self.handle.id)
        return answer(decide(found), self.call.request)

    def _abort(self, error: BaseException) -> None:
        """*Commits.* Give the request up; what goes wrong here must not hide why."""
        handle = self.handle
        try:
            close_lost(handle.id, epoch=handle.epoch, asked=handle.wants_release, why=_why(error))
        except RequestEndedError:
            log.warning("Request %s was taken over before its handler ended with %s.", handle.id, _why(error))
        except (EffectsError, Error):
            log.exception("Request %s could not be closed; its lease will run out.", handle.id)


class _ServerError(Exception):
    """The view answered with a status of 500 or more."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the view answered {status}")
        self.status = status


def _why(error: BaseException) -> str:
    # no message: it may hold what the project does not want stored
    return f"HTTP {error.status}" if isinstance(error, _ServerError) else type(error).__name__
