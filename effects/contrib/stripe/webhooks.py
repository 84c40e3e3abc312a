"""Stripe's webhooks: signed hints about our executions, heard once each, and looked into.

    path("stripe/events/", stripe_events)

Stripe waits seconds for an answer, repeats what is not answered with 2xx for days, and promises no order. So nobody is
called here: what may matter makes a look-up due, or goes to a person; see `transitions.hear`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.db import connections
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from effects.contrib.stripe.client import is_live
from effects.contrib.stripe.effect import KEY_MARK, REF_MARK, Standing, StripeEffect
from effects.contrib.stripe.signatures import UnsignedError, signed_event, signing_secrets
from effects.declarations.effect import get_effect
from effects.http.bodies import BodyTooLargeError, BodyUnreadableError, read_body
from effects.journal.current import without_request
from effects.journal.logs import get_logger
from effects.models import Execution
from effects.runtime import operators
from effects.transitions import News, Says
from effects.transitions.settlement import in_tenant
from effects.vocabulary.canonical import clean_text
from effects.vocabulary.exceptions import EffectDefinitionError, PayloadUnreadableError, TooSoonError

__all__ = ["MAX_EVENT_BYTES", "stripe_events"]

log = get_logger("effects.contrib.stripe")

#: Larger bodies are refused unread; Stripe's own largest events are a fraction of it.
MAX_EVENT_BYTES = 1024 * 1024
#: What a status says where the payload is gone that would tell more.
_BY_STATUS = {"succeeded": Says.HAPPENED, "failed": Says.UNDONE, "canceled": Says.UNDONE}
_KEPT = ("status", "amount", "currency")


@csrf_exempt
@require_POST
def stripe_events(request: HttpRequest) -> HttpResponse:
    """Take one event of Stripe's.

    200 for everything that is signed, ours or not, so that Stripe neither repeats it nor gives the endpoint up. 400
    where it is not signed with a secret of `STRIPE_WEBHOOK_SECRET`, or too old, too large or not readable: nothing is
    recorded. 503 where it came too soon. What raises is a 500: Stripe delivers it again, and what was heard already is
    not heard twice.
    """
    try:
        event = _event_of(request)
    except (UnsignedError, BodyTooLargeError, BodyUnreadableError) as error:
        log.warning("A webhook was refused: %s", error)
        return HttpResponseBadRequest("This is no event that Stripe signed for us just now.\n", "text/plain")
    try:
        for found in _objects_of(event):
            _hear(event, found)
    except TooSoonError as error:
        log.info("Event %s (%s) came too soon; Stripe delivers it again: %s", *_names(event), error)
        return HttpResponse("Too soon: deliver it again.\n", "text/plain", 503)
    return HttpResponse("Heard.\n", "text/plain")


# the journal's commits must be its own; under ATOMIC_REQUESTS an open transaction of any alias refuses them
stripe_events._non_atomic_requests = set(connections)  # type: ignore[attr-defined]
#: For the system check, which must not import the SDK.
stripe_events.signing_secrets = signing_secrets  # type: ignore[attr-defined]


def _event_of(request: HttpRequest) -> dict[str, Any]:
    # here, and not in the view: reports of what raises later show the view's variables, secrets and all
    secrets = signing_secrets()
    return signed_event(_body_of(request), request.headers.get("Stripe-Signature", ""), secrets)


def _body_of(request: HttpRequest) -> bytes:
    if not request.META.get("CONTENT_LENGTH"):
        raise UnsignedError("it was sent without a Content-Length, so that nothing bounds its body")
    body = read_body(request, MAX_EVENT_BYTES)
    if body is None:
        raise UnsignedError("its body was consumed before the view: take the middleware that reads it off this path")
    return body


def _objects_of(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Iterate over the objects that an event shows: its own, and a charge's refunds."""
    data = event.get("data")
    found = data.get("object") if isinstance(data, dict) else None
    if not isinstance(found, dict):
        log.info("Event %s (%s) shows no object; send snapshot events to this address.", *_names(event))
        return
    yield found
    refunds = found.get("refunds") if found.get("object") == "charge" else None
    listed = refunds.get("data") if isinstance(refunds, dict) else None
    yield from (refund for refund in listed or () if isinstance(refund, dict))


def _hear(event: dict[str, Any], found: dict[str, Any]) -> None:
    """Hear what an event says of one object, if an execution of ours created it."""
    if _is_of_another_mode(event):
        return
    row = _execution_of(event, found)
    effect = None if row is None else _effect_of(row, event)
    if row is None or effect is None:
        return
    if not effect.creates or found.get("object") != effect.creates:
        # Stripe copies the metadata of a payment intent to its charges
        log.info(
            "Event %s (%s) is about %.80r; %s creates %r.", *_names(event), found.get("object"),
            row.operation, effect.creates,
        )  # fmt: skip
        return
    news = _read(row, effect, event, found)
    heard = operators.hear(row.pk, news)
    log.info(
        "Event %s (%s) says %r of %s %s: %s.", *_names(event), news.says.value, row.operation, row.pk,
        "nothing new" if heard is None else heard.state,
    )  # fmt: skip


def _is_of_another_mode(event: dict[str, Any]) -> bool:
    """Return whether an event is of Stripe's test mode where real money moves, or the other way round.

    Test objects prove nothing of live ones, and a copy of the journal calls its own by the same marks.
    """
    live, ours = event.get("livemode"), is_live()
    if ours is None or not isinstance(live, bool) or live is ours:
        return False
    said, meant = ("live", "test") if live else ("test", "live")
    log.warning("Event %s (%s) is of %s mode, and STRIPE_API_KEY is of %s mode; it is ignored.", *_names(event), said,
                meant)  # fmt: skip
    return True


def _execution_of(event: dict[str, Any], found: dict[str, Any]) -> Execution | None:
    """Return the execution that an object's marks name; None where they name none of this journal's."""
    marks = found.get("metadata")
    ref, key = (marks.get(REF_MARK), marks.get(KEY_MARK)) if isinstance(marks, dict) else (None, None)
    if not ref or not key:
        log.info("Event %s (%s) is about nothing of ours.", *_names(event))
        return None
    try:
        row = Execution.objects.filter(pk=UUID(str(ref))).first()
    except ValueError:
        row = None
    if row is None or row.provider_key != key:
        why = "this journal has no such execution" if row is None else "its effects_key is another one"
        log.warning("Event %s (%s) names %.80r, and %s; it is ignored.", *_names(event), ref, why)
        return None
    return row


def _effect_of(row: Execution, event: dict[str, Any]) -> StripeEffect[Any] | None:
    try:
        effect = get_effect(row.operation)
    except EffectDefinitionError:
        log.error("Event %s (%s) is about %s %s, which is not registered; it is ignored.", *_names(event),
                  row.operation, row.pk)  # fmt: skip
        return None
    if isinstance(effect, StripeEffect):
        return effect
    log.warning("Event %s (%s) names %s %s, which is no StripeEffect; it is ignored.", *_names(event),
                row.operation, row.pk)  # fmt: skip
    return None


def _read(row: Execution, effect: StripeEffect[Any], event: dict[str, Any], found: dict[str, Any]) -> News:
    """Return what an event says of an execution, as its effect reads the object."""
    evidence = {
        "from": "a webhook of Stripe's",
        **{name: event.get(name) for name in ("type", "created", "livemode")},
        "object": found.get("id"),
        **{name: found.get(name) for name in _KEPT},
    }
    with in_tenant(row.tenant), without_request():
        says, more = _judge(row, effect, found)
        return News(str(event.get("id")), says, str(found.get("id") or ""), evidence | more)
    raise RuntimeError("TENANT_CONTEXT swallowed what reading an event raised; let it go on")


def _judge(row: Execution, effect: StripeEffect[Any], found: dict[str, Any]) -> tuple[Says, dict[str, Any]]:
    """Return what an object says of its execution, and what else is worth keeping."""
    try:
        payload = effect.load(row.payload, row.payload_version)
    except PayloadUnreadableError:
        why = "by its status alone: the payload is dropped or cannot be read"
        return _BY_STATUS.get(str(found.get("status")), Says.CHANGED), {"judged": why}
    difference, standing = effect.difference(payload, found), effect.standing(payload, found)
    more = {"difference": difference} if difference else {}
    if difference:
        log.warning("Stripe has %s of %s %s.", clean_text(difference, 200), row.operation, row.pk)
    match standing:
        case Standing.DONE:
            return Says.HAPPENED, more
        case Standing.UNDER_WAY:
            return Says.UNDER_WAY, more
        case Standing.REFUSED if effect.undone(payload, found):
            return Says.UNDONE, more
    return Says.CHANGED, more


def _names(event: dict[str, Any]) -> tuple[str, str]:
    """Return an event's id and type as a log can hold them."""
    return clean_text(event.get("id"), 80), clean_text(event.get("type"), 80)
