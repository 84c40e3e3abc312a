"""A customer, an approver, and an order that was paid at localstripe."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from project.payments.checkout import paid_order
from project.payments.effects import ShopRefund
from project.payments.models import Order
from project.services.faults import Faults


@pytest.fixture
def customer(db: None) -> User:
    """Who asks."""
    return User.objects.create_user("customer", password="pw")


@pytest.fixture
def approver(db: None) -> User:
    """Who may approve refunds."""
    user = User.objects.create_user("approver", password="pw", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="approve_refund"))
    return user


@pytest.fixture
def order(faults: Faults, customer: User) -> Order:
    """An order of 1000.00 euros, paid; the payment's requests are forgotten."""
    found = paid_order(customer, "order-17", 100_000)
    faults.reset()
    return found


def refund(order: Order, amount: int = 400, **fields: Any) -> ShopRefund:
    """Return the payload of a refund of an order."""
    return ShopRefund(
        order=order.number, payment_intent=order.payment_intent, amount=amount, currency=order.currency, **fields
    )
