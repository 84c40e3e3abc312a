"""What clients send and are answered."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from .models import Order, Payout, Refund


class OrderSerializer(serializers.ModelSerializer[Order]):
    """An order."""

    amount = serializers.IntegerField(min_value=1, max_value=99_999_999)
    currency = serializers.RegexField(r"^[a-z]{3}\Z")

    class Meta:
        model = Order
        fields = ["id", "number", "amount", "currency", "payment_intent", "refundable"]
        read_only_fields = ["payment_intent"]


class RefundRequest(serializers.Serializer[Any]):
    """A refund to ask for; without an amount, of all that is left. `context["order"]` is the order."""

    amount = serializers.IntegerField(min_value=1, required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse what cannot be refunded."""
        order: Order = self.context["order"]
        if not order.payment_intent:
            raise serializers.ValidationError("This order is not paid.")
        left = order.refundable
        amount = attrs.setdefault("amount", left)
        if not 0 < amount <= left:
            raise serializers.ValidationError({"amount": f"Only {left} can still be refunded."})
        return attrs


class RefundSerializer(serializers.ModelSerializer[Refund]):
    """A refund that happened."""

    order = serializers.SlugRelatedField[Order](slug_field="number", read_only=True)

    class Meta:
        model = Refund
        fields = ["order", "amount", "currency", "stripe_id"]


class PayoutRequest(serializers.Serializer[Any]):
    """A payout to ask for."""

    amount = serializers.IntegerField(min_value=1, max_value=99_999_999)
    currency = serializers.RegexField(r"^[a-z]{3}\Z")


class PayoutSerializer(serializers.ModelSerializer[Payout]):
    """A payout that happened."""

    class Meta:
        model = Payout
        fields = ["amount", "currency", "stripe_id"]
