"""What clients send and are answered."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from .models import NUMBER, Order, Payout, Refund


class OrderSerializer(serializers.ModelSerializer[Order]):
    """An order."""

    number = serializers.RegexField(rf"^{NUMBER}\Z")
    amount = serializers.IntegerField(min_value=1, max_value=99_999_999)
    currency = serializers.RegexField(r"^[a-z]{3}\Z")

    class Meta:
        model = Order
        fields = ["id", "number", "amount", "currency", "payment_intent", "refundable"]
        read_only_fields = ["payment_intent"]


class RefundRequest(serializers.Serializer[Any]):
    """A refund to ask for; without an amount, of all that is left."""

    amount = serializers.IntegerField(min_value=1, required=False)


class RefundSerializer(serializers.ModelSerializer[Refund]):
    """A refund that happened."""

    order = serializers.SlugRelatedField[Order](slug_field="number", read_only=True)

    class Meta:
        model = Refund
        fields = ["order", "amount", "currency", "stripe_id"]


class PayoutRequest(serializers.Serializer[Any]):
    """A payout to ask for; the shop's bank takes euros alone."""

    amount = serializers.IntegerField(min_value=1, max_value=99_999_999)
    currency = serializers.ChoiceField(["eur"])


class Refusal(serializers.Serializer[Any]):
    """Why something did not happen."""

    code = serializers.CharField()
    detail = serializers.CharField()


class Conflict(serializers.Serializer[Any]):
    """What the request does not fit to."""

    detail = serializers.CharField()


class PayoutSerializer(serializers.ModelSerializer[Payout]):
    """A payout that happened."""

    class Meta:
        model = Payout
        fields = ["amount", "currency", "stripe_id"]
