"""A transactional view: its rows, the key and the answer commit together, or none of them."""

from __future__ import annotations

from django.db import transaction
from django.http.response import HttpResponseBase

from effects import transitions
from effects.http.answers import answer, store, unavailable
from effects.http.calls import Call, HandlerNotFinishedError
from effects.http.protection import Protection
from effects.http.replay import Compare, Run, begin
from effects.http.statements import Watch, is_broken, marked_for_rollback
from effects.journal.commits import commits, journal, reaching
from effects.journal.current import RequestHandle, in_request
from effects.journal.logs import get_logger
from effects.transitions import Opened, Opening
from effects.vocabulary.exceptions import JournalUnavailableError

__all__ = ["TRANSIENT", "run_transactional"]

log = get_logger("effects.http")

#: Refusals that say nothing lasting of the request: never stored where the key can be freed.
TRANSIENT = frozenset({401, 403, 409, 423, 425, 429})


def run_transactional(protection: Protection, call: Call, opening: Opening, compare: Compare) -> HttpResponseBase:
    """*Commits.* Run the view once for its key within one transaction, or answer what is known of the key.

    A lost COMMIT is settled before anybody is told of it; where nobody can say, the client gets 503 and sends the same
    request again.
    """
    run = _Run(protection, call)
    try:
        decision = begin(opening, compare=compare, wait=protection.wait, open_request=run.open_and_run)
    except _NothingKeptError as end:
        return end.response
    except HandlerNotFinishedError:
        log.exception("%s is transactional and returned NotFinished; its rows were undone.", opening.operation)
        return unavailable()
    except JournalUnavailableError:
        log.exception("%s could not be recorded.", opening.operation)
        if not run.began:
            call.not_executed("execution_unavailable")
        return unavailable()
    if isinstance(decision, Run):
        assert run.response is not None  # noqa: S101 - for the type checker: what was opened was run
        return run.response
    call.not_executed(decision.code)
    return answer(decision, call.request)


class _NothingKeptError(Exception):
    """Rolls everything back, and carries the answer out."""

    def __init__(self, response: HttpResponseBase) -> None:
        super().__init__("nothing is kept of this request")
        self.response = response


class _Run:
    """One run of a transactional view."""

    def __init__(self, protection: Protection, call: Call) -> None:
        self.protection, self.call = protection, call
        self.began = False
        self.response: HttpResponseBase | None = None

    def open_and_run(self, opening: Opening) -> Opened:
        """*Commits.* Open, run and freeze in one transaction; do nothing where another holds the key.

        Raises:
            _NothingKeptError: the answer goes out, nothing is recorded.
        """
        with commits("answering a transactional request", foreign=True):
            with reaching("opening a request"):
                opened = transitions.open_request(opening, joins=True)
            if opened.made:
                self._run(opened, opening)
        return opened

    def _run(self, opened: Opened, opening: Opening) -> None:
        self.began = True
        connection, watch = journal(), Watch()
        handle = RequestHandle(
            id=opened.row.pk, epoch=opened.row.epoch, operation=self.protection.operation, tenant=opening.tenant,
            subject=opening.subject, actor=opening.actor,
        )  # fmt: skip
        with transaction.atomic(using=connection.alias):
            with in_request(handle), connection.execute_wrapper(watch):
                response, raised = self.call.respond(passes=(JournalUnavailableError, HandlerNotFinishedError))
            undone = is_broken(connection)
            if undone and not raised and response.status_code < 400:
                raise marked_for_rollback()
            # REST framework's exception handler may have marked this block: its mark goes with the savepoint
            undone = undone or raised
            if undone:
                connection.set_rollback(True)
        self._keep(opened, handle, response, undone=undone, wrote=watch.wrote)

    def _keep(
        self, opened: Opened, handle: RequestHandle, response: HttpResponseBase, *, undone: bool, wrote: bool
    ) -> None:
        """Freeze the answer, or free the key: with its rows standing, or by rolling all back."""
        status, wish = response.status_code, None
        if status >= 400 or handle.wants_release:
            wish = self.protection.wish(response, handle)
        if status >= 400:
            nothing_stands = undone or not wrote
            if wish is None and (status >= 500 or not wrote or (undone and status in TRANSIENT)):
                raise _NothingKeptError(response)
            if wish is False and (status >= 500 or nothing_stands):
                raise _NothingKeptError(response)
        self.response = response
        with reaching("answering a transactional request"):
            if wish is False and transitions.release(opened.row.pk, epoch=opened.row.epoch, asked=True, joins=True):
                return
            stored = store(response)
            transitions.freeze(opened, stored)
        if not stored.missing:
            self.response = self.call.stored(response)
