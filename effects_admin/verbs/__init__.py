"""What a person may do to a row: each verb with its rules in words, its consequence and the public function it calls.

A verb answers two questions before it is offered: is this person permitted (`not_permitted`), and is it possible as
the row stands (`not_possible`). Both only explain: the transitions ask again under the row's lock.
"""

from __future__ import annotations

from effects_admin.cases import Case, RequestCase
from effects_admin.verbs.approvals import Approve, Cancel, Deny, Withdraw
from effects_admin.verbs.base import Verb
from effects_admin.verbs.doubts import LookUp, OrderResend, Reopen, Resolve, ResolveRequest
from effects_admin.verbs.evidence import BringEvidence
from effects_admin.verbs.sequels import Compensate, Supersede

__all__ = ["EXECUTION_VERBS", "REQUEST_VERBS", "Verb"]

#: In the order in which the execution's page offers them.
EXECUTION_VERBS: tuple[Verb[Case], ...] = (
    Approve(),
    Deny(),
    LookUp(),
    Resolve(),
    Reopen(),
    OrderResend(),
    Withdraw(),
    Cancel(),
    Compensate(),
    Supersede(),
    BringEvidence(),
)
REQUEST_VERBS: tuple[Verb[RequestCase], ...] = (ResolveRequest(),)
