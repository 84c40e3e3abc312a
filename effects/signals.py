"""Signals for observers, sent after the commit; what a receiver raises is logged and changes nothing.

`execution_changed(sender, execution)`: an `ExecutionSnapshot` after a change that this process made; the sender is the
effect's class, so `execution_changed.connect(receiver, sender=RefundPayment)` hears of its own effect alone. Signals
are hints, never control flow: a change made by a process that then died is announced by nobody.
"""

from __future__ import annotations

from django.dispatch import Signal

from effects.effect import get_effect
from effects.exceptions import EffectDefinitionError
from effects.failures import is_interrupt
from effects.snapshots import ExecutionSnapshot

__all__ = ["announce", "execution_changed"]

execution_changed = Signal()


def announce(execution: ExecutionSnapshot) -> None:
    """Send `execution_changed`; the sender is the effect's class, None where it is not registered any more."""
    try:
        # a class, not the operation's name: Django compares senders by identity
        sender = type(get_effect(execution.operation))
    except EffectDefinitionError:
        sender = None
    for _, answer in execution_changed.send_robust(sender=sender, execution=execution):
        if isinstance(answer, BaseException) and is_interrupt(answer):
            raise answer  # the process's time is up, which is no error of the receiver
