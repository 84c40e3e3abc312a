"""The journal's tables. Rows only: verbs live in `effects.transitions`, locks in `effects.journal.locks`."""

from effects.models.approval import Approval, ApprovalVote
from effects.models.attempt import Attempt
from effects.models.execution import Execution
from effects.models.heartbeat import Heartbeat
from effects.models.journal import Journal
from effects.models.notice import PendingNotice
from effects.models.receipt import Receipt, Resolution
from effects.models.request import Request, RequestExecution

__all__ = [
    "Approval",
    "ApprovalVote",
    "Attempt",
    "Execution",
    "Heartbeat",
    "Journal",
    "PendingNotice",
    "Receipt",
    "Request",
    "RequestExecution",
    "Resolution",
]
