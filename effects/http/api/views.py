"""The views of the API: each finds what the caller may see, calls one public function, and shows what became of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.decorators import method_decorator
from rest_framework.exceptions import NotFound, ParseError
from rest_framework.pagination import CursorPagination
from rest_framework.parsers import JSONParser
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.views import APIView

from effects.http.api.callers import CANCEL, Seen, caller_of, find_approval, find_execution
from effects.http.api.problems import API_CODES, as_problem
from effects.http.api.proposals import propose
from effects.http.api.serializers import (
    ApprovalPage,
    ApprovalSerializer,
    ProposalRequest,
    ProposalSerializer,
    VoteRequest,
    WithdrawRequest,
    approval_data,
    poll_after,
    proposal_data,
)
from effects.http.decorators import idempotent
from effects.http.problems import CODES, Code
from effects.http.status import ref_of
from effects.journal.summaries import is_bare
from effects.models import Approval, Execution
from effects.runtime import operators
from effects.vocabulary.exceptions import NotEntitledError
from effects.vocabulary.states import ApprovalState, ExecutionReason

__all__ = ["ApprovalsView", "Documented", "ProposalView", "ProposalsView", "VoteView", "WithdrawView"]


@dataclass(frozen=True)
class Documented:
    """What a method takes and answers, for its schema."""

    responses: Mapping[Any, Any]
    request: Any = None
    problems: tuple[Code, ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def _problems(*codes: str) -> tuple[Code, ...]:
    # each of them asks the journal
    return (*(API_CODES[code] for code in codes), CODES["execution_unavailable"])


#: The headers of what `_shown` answers.
_SHOWN = ("ETag", "Retry-After")


class _Parser(JSONParser):
    """JSON, which is refused where it is nested too deeply to be read."""

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Return the value of a body.

        Raises:
            ParseError: it has none.
        """
        try:
            return super().parse(stream, media_type, parser_context)
        except RecursionError as error:
            raise ParseError(f"JSON parse error - {error}") from error


class _Renderer(JSONRenderer):
    """JSON in ASCII: what was recorded can be told, whatever it holds."""

    ensure_ascii = True


class _EffectsView(APIView):
    """JSON in, JSON out, problems for errors; the project's own authentication and throttles."""

    permission_classes = (IsAuthenticated,)
    parser_classes = (_Parser,)
    renderer_classes = (_Renderer,)
    documented: ClassVar[Mapping[str, Documented]] = {}

    def get_exception_handler(self) -> Any:
        """Return what makes problems of errors."""
        return as_problem


def _acted_for(request: Any) -> str:
    """Return who is acted for: an account that acts for many people sends keys of its own for each of them."""
    principal = caller_of(request).principal
    return principal.id if principal is not None else ""


class ProposalsView(_EffectsView):
    """Where effects are proposed."""

    documented = {
        "post": Documented(
            {201: ProposalSerializer},
            ProposalRequest,
            _problems("request_invalid", "payload_invalid", "not_proposable", "proposal_refused", "nobody_entitled"),
            headers={201: ("Location",)},
        )
    }

    @idempotent("effects.propose", mode="transactional", scope=_acted_for)
    def post(self, request: Request) -> Response:
        """Propose an effect: it is recorded, and sent only after somebody else has approved it."""
        caller = caller_of(request)
        asked = ProposalRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        outcome = propose(caller, asked.validated_data["operation"], asked.validated_data["payload"])
        data = ProposalSerializer(proposal_data(find_execution(caller, UUID(outcome.ref)))).data
        return Response(data, 201, headers={"Location": data["url"]})


class ProposalView(_EffectsView):
    """One proposal, or any other execution that the caller asked for, may view or may decide."""

    documented = {
        "get": Documented(
            {200: ProposalSerializer, 304: None},
            problems=_problems("not_found"),
            headers=dict.fromkeys((200, 304), _SHOWN),
        )
    }

    def get(self, request: Request, ref: str) -> HttpResponseBase:
        """Return where it stands, with a hint when to ask again; with `If-None-Match`, 304 while nothing changed."""
        return _shown(request, find_execution(caller_of(request), ref_of(ref)))


@method_decorator(transaction.non_atomic_requests, name="dispatch")
class WithdrawView(_EffectsView):
    """Where a proposal is taken back."""

    documented = {
        "post": Documented(
            {200: ProposalSerializer},
            WithdrawRequest,
            _problems("request_invalid", "not_found", "not_entitled", "already_decided"),
            headers={200: _SHOWN},
        )
    }

    def post(self, request: Request, ref: str) -> HttpResponseBase:
        """Take a proposal back that was not sent, for those who asked for it and who may cancel executions."""
        caller = caller_of(request)
        seen = find_execution(caller, ref_of(ref))
        if not caller.may_take_back(seen.row) and not caller.may(CANCEL, seen.row):
            raise NotEntitledError("You did not ask for it, and may not cancel it.")
        asked = WithdrawRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        if seen.row.reason != ExecutionReason.WITHDRAWN:  # else it is the second click
            operators.withdraw(seen.row.pk, by=caller.by, reason=asked.validated_data["reason"])
        return _shown(request, find_execution(caller, seen.row.pk))


class _Oldest(CursorPagination):
    """Oldest first, by the time-ordered id; no COUNT."""

    ordering = "id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def decode_cursor(self, request: Request) -> Any:
        """Refuse a cursor that is none of ours."""
        cursor = super().decode_cursor(request)
        if cursor is not None and cursor.position is not None:
            try:
                UUID(str(cursor.position))
            except ValueError as error:
                raise NotFound(self.invalid_cursor_message) from error
        return cursor


class ApprovalsView(_EffectsView):
    """What waits for people."""

    documented = {
        "get": Documented(
            {200: ApprovalPage},
            problems=_problems("not_found"),
            query={"cursor": "Where the page begins, as `next` has it.", "page_size": "50 unless said, at most 200."},
        )
    }

    def get(self, request: Request) -> Response:
        """List the undecided approvals for which the caller holds the permission, and why they cannot decide some."""
        caller = caller_of(request)
        waiting = Approval.objects.filter(state=ApprovalState.REQUESTED.value, execution__tenant=caller.tenant)
        # a handful of rules stand behind any number of rows, and a permission is asked of the backends, not of SQL
        rules = waiting.order_by().values_list("approvers", flat=True).distinct()
        mine = waiting.filter(approvers__in=[rule for rule in rules if caller.could_decide(rule)])
        rows: Any = mine.select_related("execution").defer("execution__payload", "execution__output")
        pages = _Oldest()
        page: Any = pages.paginate_queryset(rows.prefetch_related("votes").annotate(seen_at=Now()), request, view=self)
        seen = [Seen(found.execution, found, caller, found.seen_at) for found in page or ()]
        # a function of the rule, or a permission for one object, is only known of the row
        visible = [one for one in seen if one.is_visible]
        _with_payloads(visible)
        shown = [ApprovalSerializer(approval_data(one)).data for one in visible]
        return pages.get_paginated_response(shown)


def _with_payloads(seen: Sequence[Seen]) -> None:
    """Load, in one query, the payloads of those that people decide by them: the summary tells nothing of these."""
    rows = {one.row.pk: one.row for one in seen if one.approval is not None and is_bare(one.approval.summary)}
    if rows:
        for pk, payload in Execution.objects.filter(pk__in=rows).values_list("pk", "payload"):
            rows[pk].payload = payload


@method_decorator(transaction.non_atomic_requests, name="dispatch")
class VoteView(_EffectsView):
    """Where a person decides."""

    documented = {
        "post": Documented(
            {200: ProposalSerializer},
            VoteRequest,
            _problems("request_invalid", "not_found", "not_entitled", "stale_revision", "already_decided"),
            headers={200: _SHOWN},
        )
    }

    def post(self, request: Request, approval_id: str) -> HttpResponseBase:
        """Approve or deny what was shown; with the quorum's last approval it is sent. Repeating it changes nothing."""
        caller = caller_of(request)
        wanted = ref_of(approval_id)
        seen = find_approval(caller, wanted)
        asked = VoteRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        vote = asked.validated_data
        if caller.principal is not None:
            raise NotEntitledError(seen.why_not())
        call = operators.grant if vote["decision"] == "approve" else operators.deny
        call(
            seen.row.pk, by=caller.user, digest=vote["digest"], comment=vote["comment"], approval=wanted,
            revision=vote.get("revision"),
        )  # fmt: skip
        return _shown(request, find_execution(caller, seen.row.pk))


def _shown(request: Request, seen: Seen) -> HttpResponseBase:
    """Return an execution, validated by its contents."""
    data = ProposalSerializer(proposal_data(seen)).data
    # when to ask again changes with the clock, and the contents do not
    shown = {name: value for name, value in data.items() if name != "poll_after_seconds"}
    digest = hashlib.sha256(json.dumps(shown, cls=JSONEncoder, sort_keys=True).encode()).hexdigest()
    etag = f'"{digest[:32]}"'
    response: Any = Response(data, headers={"ETag": etag, "Cache-Control": "private, no-cache"})
    if request.method == "GET":
        response = get_conditional_response(request._request, etag=etag, response=response)
    seconds = poll_after(seen)
    if seconds is not None:
        response["Retry-After"] = str(seconds)
    return response  # type: ignore[no-any-return]
