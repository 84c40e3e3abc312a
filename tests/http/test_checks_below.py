"""A check below `@idempotent` would see the first request of a key alone: known ones are refused at decoration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.views.decorators import staff_member_required
from django.contrib.auth.decorators import login_required, permission_required, user_passes_test
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.http import HttpResponse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_page, never_cache
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from effects.http.decorators import idempotent

pytestmark = pytest.mark.one_setting
protect = idempotent("checks_below", mode="journaled")

CHECKS: dict[str, Callable[..., Any]] = {
    "permission_required": permission_required("shop.refund"),
    "login_required": login_required,
    "user_passes_test": user_passes_test(bool),
    "staff_member_required": staff_member_required,
    "require_POST": require_POST,
    "require_http_methods": require_http_methods(["POST", "PUT"]),
    "csrf_protect": csrf_protect,
    "cache_page": cache_page(60),
    "below a harmless one": lambda view: sensitive_post_parameters()(login_required(view)),
    "method_decorator": method_decorator(permission_required("shop.refund")),
    "method_decorator of several": method_decorator([never_cache, require_POST]),
    "method_decorator of a middleware's": method_decorator(csrf_protect),
}
HARMLESS: dict[str, Callable[..., Any]] = {
    "csrf_exempt": csrf_exempt,
    "never_cache": never_cache,
    "sensitive_post_parameters": sensitive_post_parameters(),
    "non_atomic_requests": transaction.non_atomic_requests,
    "method_decorator": method_decorator(never_cache),
}


def view(request: Any) -> HttpResponse:
    return HttpResponse()


async def async_view(request: Any) -> HttpResponse:
    return HttpResponse()


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_below_is_refused_with_the_corrected_lines(name: str) -> None:
    """Whichever of Django's own, however it is put there; above it is welcome."""
    with pytest.raises(ImproperlyConfigured, match=r"first request.*\n[^$]*method_decorator\(…, name='dispatch'\)"):
        protect(CHECKS[name](view))
    assert callable(CHECKS[name](protect(view)))


def test_a_check_below_of_an_async_view_is_refused() -> None:
    """Django's decorators make another wrapper for it."""
    with pytest.raises(ImproperlyConfigured, match=r"decorators\.http"):
        protect(require_POST(async_view))


@pytest.mark.parametrize("name", HARMLESS)
def test_what_decides_nothing_may_stand_below(name: str) -> None:
    """It marks the view, or its answer."""
    assert callable(protect(HARMLESS[name](view)))
