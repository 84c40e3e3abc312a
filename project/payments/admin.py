"""The shop's rows in the admin, to look at."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from .models import Order, Payout, Refund


class ShownOnly(admin.ModelAdmin):  # type: ignore[type-arg]  # no subscript at run time
    """Rows that only the API and the effects write."""

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        """Nobody adds."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Nobody changes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Nobody deletes."""
        return False


@admin.register(Order)
class OrderAdmin(ShownOnly):
    """Orders."""

    list_display = ["number", "amount", "currency", "payment_intent", "created_at"]


@admin.register(Refund)
class RefundAdmin(ShownOnly):
    """Refunds."""

    list_display = ["stripe_id", "order", "amount", "currency", "created_at"]


@admin.register(Payout)
class PayoutAdmin(ShownOnly):
    """Payouts."""

    list_display = ["stripe_id", "amount", "currency", "created_at"]
