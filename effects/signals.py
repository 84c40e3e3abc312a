"""Signals for observers, sent after the commit; what a receiver raises is logged and changes nothing.

`execution_changed(sender, execution)`: an `ExecutionSnapshot` after a change that this process made. Signals are hints,
never control flow: a change made by a process that then died is announced by nobody.
"""

from __future__ import annotations

from django.dispatch import Signal

from effects.snapshots import ExecutionSnapshot

__all__ = ["announce", "execution_changed"]

execution_changed = Signal()


def announce(execution: ExecutionSnapshot) -> None:
    """Send `execution_changed`; the sender is the operation's name."""
    execution_changed.send_robust(sender=execution.operation, execution=execution)
