"""The console's link to Stripe's dashboard."""

from __future__ import annotations

from typing import Any

import pytest

from effects.contrib.stripe import CreatePaymentIntent, CreateRefund, StripeEffect

ELSEWHERE = "http://127.0.0.1:8420"


@pytest.mark.parametrize(
    ("effect", "key", "base", "url"),
    [
        (CreateRefund, "sk_live_1", "", "https://dashboard.stripe.com/refunds/re_1"),
        (CreateRefund, "sk_test_1", "https://api.stripe.com/", "https://dashboard.stripe.com/test/refunds/re_1"),
        (CreatePaymentIntent, "rk_test_1", "", "https://dashboard.stripe.com/test/payments/re_1"),
        (CreateRefund, "sk_test_1", ELSEWHERE, ""),
        (StripeEffect, "sk_live_1", "", ""),
    ],
)
def test_an_object_is_shown_by_the_dashboard_that_has_it(
    effect: type[StripeEffect[Any]], key: str, base: str, url: str, settings: Any
) -> None:
    """Live and test objects have addresses of their own; what a substitute holds has none."""
    settings.STRIPE_API_KEY, settings.STRIPE_API_BASE = key, base
    assert effect().provider_url("re_1", tenant="") == url
    assert effect().provider_url("../re 1", tenant="") == url.replace("re_1", "..%2Fre%201")
