"""Signals for observers, sent after the commit; what a receiver raises is logged and changes nothing.

`execution_changed(sender, execution, verb, previous)` follows each change of an execution's state or evidence, whoever
made it: a request, a worker, a sweep, a person, a webhook. The sender is the effect's class, so that
`execution_changed.connect(receiver, sender=RefundPayment)` hears of its own effect alone.

- `execution`: an `ExecutionSnapshot`, as that change left it.
- `verb`: the name of the edge, which is the `event` of its receipt: `record`, `grant`, `doubt`, `complete` …
- `previous`: the `ExecutionState` before it; None where the execution was recorded by it.

Signals are hints, never control flow: a change made by a process that then died is announced by nobody.
"""

from __future__ import annotations

from functools import partial

from django.dispatch import Signal

from effects.declarations.effect import Effect, get_effect
from effects.journal.commits import after_commit
from effects.journal.snapshots import ExecutionSnapshot, snapshot
from effects.models import Execution
from effects.vocabulary.exceptions import EffectDefinitionError
from effects.vocabulary.failures import is_interrupt
from effects.vocabulary.states import ExecutionState

__all__ = ["announce", "execution_changed"]

execution_changed = Signal()


def announce(row: Execution, verb: str, previous: ExecutionState | None) -> None:
    """Send `execution_changed` once the running transaction has committed; where nobody listens it costs nothing.

    Args:
        row: locked, and as the change left it.
        verb: what changed it.
        previous: its state before.
    """
    sender = _sender_of(row.operation)
    if execution_changed.has_listeners(sender):
        after_commit(partial(_send, sender, snapshot(row), verb, previous), observes=True)


def _sender_of(operation: str) -> type[Effect[object]] | None:
    """Return the effect's class, since Django compares senders by identity; None: no effect claims the name now."""
    try:
        return type(get_effect(operation))
    except EffectDefinitionError:
        return None


def _send(
    sender: type[Effect[object]] | None, execution: ExecutionSnapshot, verb: str, previous: ExecutionState | None
) -> None:
    heard = execution_changed.send_robust(sender=sender, execution=execution, verb=verb, previous=previous)
    for _, answer in heard:
        if isinstance(answer, BaseException) and is_interrupt(answer):
            raise answer  # the process's time is up, which is no error of the receiver
