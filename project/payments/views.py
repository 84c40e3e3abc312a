"""The shop's API. Every POST takes an `Idempotency-Key`: a retry does nothing twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

import effects
from effects import Completed, Failed, OutcomeError, Rejected

from .checkout import charge
from .effects import PayOut, PayoutPayload, RefundPayment, ShopRefund
from .models import Order, Payout, Refund
from .serializers import (
    Conflict,
    OrderSerializer,
    PayoutRequest,
    PayoutSerializer,
    RefundRequest,
    RefundSerializer,
    Refusal,
)

#: What `refused` answers, for the schema.
REFUSED: Mapping[Any, Any] = {402: Refusal, 422: Refusal}
#: What REST framework answers to any request for an order; of a protected view django-effects documents it.
UNKNOWN: Mapping[Any, Any] = {401: Conflict, 403: Conflict, 404: Conflict, 406: Conflict}


class ConflictError(APIException):
    """The request is well made and does not fit to what is there."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "conflict"


def not_found(request: HttpRequest, exception: Exception) -> JsonResponse:  # noqa: ARG001
    """Answer an address that is none, as REST framework answers one whose object is not there."""
    return JsonResponse({"detail": "Not found."}, status=404)


def refund_answer(outcome: effects.Outcome) -> Response:
    """Answer a request for a refund from what is known of it, in the view or hours later."""
    if isinstance(outcome, Completed):
        refund = Refund.objects.select_related("order").get(execution=outcome.ref)
        return Response(RefundSerializer(refund).data, status.HTTP_201_CREATED)
    return refused(outcome)


def payout_answer(outcome: effects.Outcome) -> Response:
    """Answer a request for a payout from what is known of it."""
    if isinstance(outcome, Completed):
        payout = Payout.objects.get(execution=outcome.ref)
        return Response(PayoutSerializer(payout).data, status.HTTP_201_CREATED)
    return refused(outcome)


def refused(outcome: effects.Outcome) -> Response:
    """Answer that it did not happen, and will not.

    Raises:
        OutcomeError: Nobody knows that; `@idempotent` says what is known.
    """
    if isinstance(outcome, Failed):
        return Response({"code": outcome.code, "detail": outcome.message}, status.HTTP_402_PAYMENT_REQUIRED)
    if isinstance(outcome, Rejected):
        body = {"code": "rejected", "detail": outcome.reason}
        return Response(body, status.HTTP_422_UNPROCESSABLE_ENTITY)
    raise OutcomeError(outcome)


class OrdersView(APIView):
    """`/orders/`."""

    @extend_schema(
        request=OrderSerializer,
        responses={201: OrderSerializer, 409: Conflict},
        parameters=[OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[201])],
    )
    @effects.idempotent("payments.create_order", mode="transactional")
    def post(self, request: Request) -> Response:
        """Create an order; row and answer commit together."""
        serializer = OrderSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        try:
            with transaction.atomic():
                order = serializer.save(customer=request.user)
        except IntegrityError as error:
            raise ConflictError("There is an order with this number.") from error
        location = reverse("order", args=[order.pk])
        return Response(serializer.data, status.HTTP_201_CREATED, headers={"Location": location})


class OrderView(APIView):
    """`/orders/<id>/`."""

    @extend_schema(
        responses={200: OrderSerializer, **UNKNOWN},
        parameters=[OpenApiParameter("WWW-Authenticate", str, OpenApiParameter.HEADER, response=[401])],
    )
    def get(self, request: Request, order_id: int) -> Response:  # noqa: ARG002
        """Return an order."""
        return Response(OrderSerializer(get_object_or_404(Order, pk=order_id)).data)


class PayView(APIView):
    """`/orders/<id>/pay/`, from before the shop had effects: the view calls Stripe itself, so it is opaque."""

    @extend_schema(request=None, responses={201: OrderSerializer})
    @effects.idempotent("payments.pay_order", mode="journaled")
    def post(self, request: Request, order_id: int) -> Response:  # noqa: ARG002
        """Charge the customer's card."""
        order = charge(get_object_or_404(Order, pk=order_id))
        return Response(OrderSerializer(order).data, status.HTTP_201_CREATED)


class RefundsView(APIView):
    """`/orders/<id>/refunds/`."""

    @extend_schema(request=RefundRequest, responses={201: RefundSerializer, 409: Conflict, **REFUSED})
    @effects.idempotent("payments.refund_order", mode="journaled", performs=[RefundPayment], answer=refund_answer)
    def post(self, request: Request, order_id: int) -> Response:
        """Refund an order, in part or whole; one key is one refund."""
        order = get_object_or_404(Order, pk=order_id)
        asked = RefundRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        payload = ShopRefund(
            order=order.number,
            payment_intent=order.payment_intent,
            amount=amount_to_refund(order, asked.validated_data.get("amount")),
            currency=order.currency,
            metadata={"order": order.number},
        )
        return refund_answer(effects.perform(RefundPayment, payload=payload, about=order))


def amount_to_refund(order: Order, asked: int | None) -> int:
    """Return how much of an order to refund: what was asked for, or all that is left.

    Raises:
        ConflictError: It cannot be refunded.
    """
    if not order.payment_intent:
        raise ConflictError("This order is not paid.")
    left = order.refundable
    amount = left if asked is None else asked
    if not 0 < amount <= left:
        raise ConflictError(f"Only {left} can still be refunded.")
    return amount


class PayoutsView(APIView):
    """`/payouts/`."""

    @extend_schema(request=PayoutRequest, responses={201: PayoutSerializer, **REFUSED})
    @effects.idempotent("payments.pay_out", mode="journaled", performs=[PayOut], answer=payout_answer)
    def post(self, request: Request) -> Response:
        """Send money to the shop's bank."""
        asked = PayoutRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        return payout_answer(effects.perform(PayOut, payload=PayoutPayload(**asked.validated_data)))
