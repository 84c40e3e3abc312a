"""Locks that are taken away, to show what they are for."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from effects.journal import locks
from effects.journal.commits import note_xid


def remove_locks(monkeypatch: pytest.MonkeyPatch, racers: int, last: str) -> None:
    """Let rows be read without a lock; each racer goes on once all have read the model that is locked last."""
    everybody_has_read = threading.Barrier(racers)

    def read(model: Any, column: str, value: object, also: str = "") -> Any:
        row = _read(model, column, value, also)
        if model.__name__ == last:
            everybody_has_read.wait(10)
        return row

    monkeypatch.setattr(locks, "_lock", read)


def read_clock_before_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock of a locked row be the statement's start, as Django's `Now()` is."""

    def lock(model: Any, column: str, value: object, also: str = "") -> Any:
        return _read(model, column, value, f"{also} FOR NO KEY UPDATE", clock="statement_timestamp()")

    monkeypatch.setattr(locks, "_lock", lock)


def _read(model: Any, column: str, value: object, also: str, clock: str = "clock_timestamp()") -> Any:
    sql = (
        f"SELECT *, {clock} AS locked_at, pg_current_xact_id()::text AS xid FROM {model._meta.db_table} "
        f"WHERE {column} = %s {also}"
    )
    row = model._default_manager.raw(sql, [str(value)])[0]
    note_xid(row.xid)
    return row
