"""The verbs of both state machines: the only writers of state.

Two families. *Joins*: inserts that commit with the caller's rows (`record_later`). *Commits*: edges whose commit is
the point; they refuse an open transaction and return when the commit is proven. Each takes ids, locks the row, then
reads the clock, compares epoch or revision, looks the edge up, writes, appends the receipt, returns a frozen snapshot.
"""

from effects.transitions._opening import Opened, Opening, request_binding
from effects.transitions._rows import effect_of
from effects.transitions.approvals import cancel, deny, expire_approval, grant, why_not, withdraw
from effects.transitions.attempts import NotSentInTime, Report, expire_lease, record_outcome
from effects.transitions.deferrals import postpone_send, refuse, run_hook
from effects.transitions.evidence import late_outcome, observe
from effects.transitions.executions import Recorded, record, record_later
from effects.transitions.journals import name_journal, name_new_journal
from effects.transitions.lookups import Claim, apply_verdict, claim, escalate_unplanned, postpone_look_up
from effects.transitions.news import News, Says, hear
from effects.transitions.notices import drop_notice, postpone_notice
from effects.transitions.permits import PermitDecision, permit
from effects.transitions.requests import (
    abort,
    conclude,
    freeze,
    open_request,
    release,
    renew,
    resolve_request,
    settle,
)
from effects.transitions.resends import order_resend
from effects.transitions.resolutions import DECISIONS, reopen, resolve
from effects.transitions.restores import (
    DOUBTING,
    doubt_request_since,
    doubt_since,
    exposed_executions,
    exposed_requests,
)
from effects.transitions.retention import drop_answers, free_keys
from effects.transitions.testimony import STATEMENTS, bring_evidence, why_not_said
from effects.transitions.tombstones import Aged, list_prunable, prune_executions
from effects.transitions.troubles import TROUBLED_FROM, note_trouble

__all__ = [
    "DECISIONS",
    "DOUBTING",
    "STATEMENTS",
    "TROUBLED_FROM",
    "Aged",
    "Claim",
    "News",
    "NotSentInTime",
    "Opened",
    "Opening",
    "PermitDecision",
    "Recorded",
    "Report",
    "Says",
    "abort",
    "apply_verdict",
    "bring_evidence",
    "cancel",
    "claim",
    "conclude",
    "deny",
    "doubt_request_since",
    "doubt_since",
    "drop_answers",
    "drop_notice",
    "effect_of",
    "escalate_unplanned",
    "expire_approval",
    "expire_lease",
    "exposed_executions",
    "exposed_requests",
    "free_keys",
    "freeze",
    "grant",
    "hear",
    "late_outcome",
    "list_prunable",
    "name_journal",
    "name_new_journal",
    "note_trouble",
    "observe",
    "open_request",
    "order_resend",
    "permit",
    "postpone_look_up",
    "postpone_notice",
    "postpone_send",
    "prune_executions",
    "record",
    "record_later",
    "record_outcome",
    "refuse",
    "release",
    "renew",
    "reopen",
    "request_binding",
    "resolve",
    "resolve_request",
    "run_hook",
    "settle",
    "why_not",
    "why_not_said",
    "withdraw",
]
