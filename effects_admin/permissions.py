"""Who may do what in the console.

| verb | takes |
|---|---|
| see a page | `effects.view_execution` (or `view_request`, `view_approval`, `view_receipt`) |
| see what one is asked to decide, and nothing else | being named by its approval's rule; see `ballots` |
| payloads, outputs, answers | `effects.view_payload` |
| approve, deny | what the approval's frozen rule names, asked again by `transitions` under the lock |
| look up now | `effects.look_up_execution` |
| resolve | `effects.resolve_execution` |
| bring evidence that says otherwise | `effects.observe_execution` |
| reopen | `effects.reopen_execution` |
| send again, of something in doubt | `effects.order_resend_execution`; then whoever the rule names, if there is one |
| cancel | `effects.cancel_execution` |
| withdraw | `effects.cancel_execution`, or being one of those who asked |
| undo what is completed | `effects.compensate_execution`; then whoever the rule names, if there is one |
| ask again for what failed or was rejected | `effects.supersede_execution`; then whoever the rule names |

`effects.approve_execution` is what a rule without a permission of its own names. Beside another rule it opens nothing,
and whoever that rule entitles does not need it.

Every question is put twice: without and with the row, `user.has_perm(permission, row)`, so that a backend with
permissions for single objects can grant what the account's own permissions do not. A project that shows people their
own tenant's rows alone subclasses the ModelAdmin and narrows `get_queryset`: pages and verbs find rows through it.
"""

from __future__ import annotations

from typing import Any

from django.db import models

__all__ = [
    "CANCEL",
    "COMPENSATE",
    "LOOK_UP",
    "OBSERVE",
    "ORDER_RESEND",
    "REOPEN",
    "RESOLVE",
    "SUPERSEDE",
    "VIEW_PAYLOAD",
    "VIEW_REQUEST",
    "lacks",
    "may",
]

LOOK_UP = "effects.look_up_execution"
OBSERVE = "effects.observe_execution"
RESOLVE = "effects.resolve_execution"
REOPEN = "effects.reopen_execution"
ORDER_RESEND = "effects.order_resend_execution"
CANCEL = "effects.cancel_execution"
COMPENSATE = "effects.compensate_execution"
SUPERSEDE = "effects.supersede_execution"
VIEW_PAYLOAD = "effects.view_payload"
VIEW_REQUEST = "effects.view_request"


def may(user: Any, permission: str, row: models.Model | None = None) -> bool:
    """Return whether `user` holds a permission, for everything or for this row."""
    return bool(user.has_perm(permission) or (row is not None and user.has_perm(permission, row)))


def lacks(user: Any, permission: str, row: models.Model | None = None) -> str:
    """Return in words that `user` lacks a permission; empty if they hold it."""
    return "" if may(user, permission, row) else f"It takes the permission “{permission}”, which you do not have."
