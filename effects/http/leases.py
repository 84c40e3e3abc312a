"""Renew the leases of this process's running requests, so that a slow handler is not taken for a dead one.

One daemon thread per process, started with the first request, renews all of them every third of `REQUEST_LEASE`; the
database stops at `HANDLER_MAX`. It ends with the process, and a process that is killed renews nothing: that is what a
lease is for. A server that allows no threads (uWSGI without `enable-threads`) renews nothing either: there a handler
has `REQUEST_LEASE`.
"""

from __future__ import annotations

import os
import threading
from uuid import UUID

from django.db import connections

from effects import transitions
from effects.conf import is_set, settings
from effects.journal.logs import get_logger
from effects.transitions.settlement import in_tenant

__all__ = ["Renewer", "hold", "let_go"]

log = get_logger("effects.leases")


class Renewer:
    """The requests that run in one process, and the thread that renews their leases."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[UUID, tuple[int, str]] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, request_id: UUID, epoch: int, tenant: str = "") -> None:
        """Renew this request's lease from now on."""
        with self._lock:
            self._held[request_id] = epoch, tenant
            if not (self._stopped.is_set() or (self._thread is not None and self._thread.is_alive())):
                self._start()

    def let_go(self, request_id: UUID) -> None:
        """Renew it no more."""
        with self._lock:
            self._held.pop(request_id, None)

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stopped.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def renew(self) -> int:
        """*Commits.* Renew all held leases once; return how many are still ours. Errors are logged."""
        # each within its tenant, whose journal may be in a schema of its own; without TENANT_CONTEXT all at once
        apart: dict[str, list[tuple[UUID, int]]] = {}
        with self._lock:
            for request_id, (epoch, tenant) in self._held.items():
                apart.setdefault(tenant if is_set("TENANT_CONTEXT") else "", []).append((request_id, epoch))
        return sum(_renew(tenant, held) for tenant, held in apart.items())

    def _start(self) -> None:
        """Start the thread; a process that may start none for now tries again with its next request."""
        thread = threading.Thread(target=self._run, name="effects-leases", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            log.exception("No thread could be started, so that leases are not renewed; the request goes on.")
        else:
            self._thread = thread

    def _run(self) -> None:
        while not self._stopped.wait(settings.REQUEST_LEASE.total_seconds() / 3):
            self.renew()
            try:
                # an idle connection of a thread that sleeps most of the time would count against the server's limit
                connections.close_all()
            except Exception:  # it is gone all the same, and the thread is needed
                log.exception("The connection of the leases could not be closed.")


def _renew(tenant: str, held: list[tuple[UUID, int]]) -> int:
    try:
        with in_tenant(tenant):
            return transitions.renew(held)
    except Exception:  # whatever it is, the next round may succeed, and the lease outlasts two failures
        log.exception("The leases of %d requests could not be renewed.", len(held))
    return 0


_renewer = Renewer()


def hold(request_id: UUID, epoch: int, tenant: str) -> None:
    """Renew a running request's lease until `let_go`, for at most `HANDLER_MAX`."""
    _renewer.hold(request_id, epoch, tenant)


def let_go(request_id: UUID) -> None:
    """Renew a request's lease no more: its handler is done."""
    _renewer.let_go(request_id)


def _forget_after_fork() -> None:
    """Begin anew in a forked child: its parent's thread and requests are not there."""
    global _renewer  # noqa: PLW0603 - a lock that the parent's thread held at the fork would stay locked for ever
    _renewer = Renewer()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
