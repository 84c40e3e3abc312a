"""The shop's own rows. Those of refunds and payouts are written by their effects' `settled`, and by nothing else."""

from __future__ import annotations

from django.conf import settings
from django.db import models

#: What an order's number looks like.
NUMBER = "[A-Za-z0-9-]{1,40}"


class Order(models.Model):
    """What a customer bought; paid when it has a payment intent."""

    number = models.CharField(max_length=40, unique=True)
    amount = models.PositiveIntegerField(help_text="Minor units of the currency.")
    currency = models.CharField(max_length=3, help_text="Three small letters.")
    payment_intent = models.CharField(max_length=255, blank=True, help_text="Stripe's id of the payment.")
    customer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="orders")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.number

    @property
    def refundable(self) -> int:
        """What is left to refund, by the shop's own rows."""
        refunded = self.refunds.aggregate(total=models.Sum("amount"))["total"] or 0
        return self.amount - refunded


class Refund(models.Model):
    """A refund that happened."""

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="refunds")
    amount = models.PositiveIntegerField(help_text="Minor units of the currency.")
    currency = models.CharField(max_length=3)
    stripe_id = models.CharField(max_length=255)
    execution = models.CharField(max_length=36, unique=True, help_text="The execution that did it.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]
        permissions = [("approve_refund", "Can approve refunds")]

    def __str__(self) -> str:
        return self.stripe_id


class Payout(models.Model):
    """Money that left for the shop's bank."""

    amount = models.PositiveIntegerField(help_text="Minor units of the currency.")
    currency = models.CharField(max_length=3)
    stripe_id = models.CharField(max_length=255, help_text="Stripe's id, or what a person found in its place.")
    execution = models.CharField(max_length=36, unique=True, help_text="The execution that did it.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.stripe_id
