"""Rows 27 to 29: where `@idempotent` stands, and how it gets out of ATOMIC_REQUESTS."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import RequestFactory
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from rest_framework.decorators import action, api_view
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from effects.http.decorators import idempotent
from effects.models import Request
from tests.http.conftest import Sender
from tests.http.rows import shop
from tests.http.rows.conftest import Ledger
from tests.http.rows.does import work
from tests.http.rows.shop import KINDS, PLACES

pytestmark = pytest.mark.django_db(transaction=True)
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_row_27_other_methods_keep_their_transaction(
    send: Sender, ledger: Ledger, atomic_requests: bool, kind: str
) -> None:
    """An undecorated method of the same class runs as the project has configured it."""
    sent = {"method": "PUT", "do": "raise_status", "status": 400, "after": True}
    assert send(f"/{kind}/api/", **sent).status_code == 400
    assert shop.seen[0] is atomic_requests
    assert ledger.rows() == (0 if atomic_requests else 1)


@each_kind
def test_row_27_below_api_view_it_refuses_with_the_fix(
    send: Sender, ledger: Ledger, atomic_requests: bool, kind: str
) -> None:
    """It cannot reach the callback there: under ATOMIC_REQUESTS an error that names what can, nothing stored."""
    if not atomic_requests:
        assert send(f"/{kind}/atomic/").status_code == 201
        return
    with pytest.raises(ImproperlyConfigured, match=r"@transaction\.non_atomic_requests\n    @api_view"):
        send(f"/{kind}/atomic/", raises=True)
    assert not shop.seen
    assert (ledger.of(kind), Request.objects.count()) == (0, 0)


@each_kind
def test_row_27_an_outer_transaction_of_any_kind_is_refused(send: Sender, ledger: Ledger, kind: str) -> None:
    """Whoever opened it: its rollback would take the record along."""
    with transaction.atomic(), pytest.raises(ImproperlyConfigured, match=r"remove the outer atomic\(\)"):
        send(f"/{kind}/plain/", raises=True)
    assert (ledger.of(kind), Request.objects.count()) == (0, 0)


PROTECT = idempotent("rows.placed", mode="transactional")


def view(request: Any) -> Any:
    return Response()


async def async_view(request: Any) -> Any:
    return Response()


@pytest.mark.one_setting
@pytest.mark.parametrize(
    ("misplaced", "fix"),
    [
        (lambda: PROTECT(PROTECT(view)), "twice"),
        (lambda: PROTECT(csrf_exempt(PROTECT(view))), "twice"),
        (lambda: PROTECT(api_view(["POST"])(view)), r"below @api_view:\n\n    @api_view\(\['POST'\]\)\n"),
        (lambda: PROTECT(View.as_view()), r"not around as_view\(\)"),
        (lambda: PROTECT(APIView), "on a method"),
        (lambda: method_decorator(PROTECT, "post")(type("V", (APIView,), {"post": view})), "on the method itself"),
        (lambda: PROTECT(async_view), "Make it a plain"),
        (lambda: api_view(["POST"])(idempotent("rows.placed.async", mode="journaled")(async_view)), "awaits nothing"),
        (lambda: PROTECT("view"), "goes on a view"),
    ],
)
def test_row_28_a_misplaced_decorator_fails_at_import(misplaced: Any, fix: str) -> None:
    """ImproperlyConfigured with the corrected lines."""
    with pytest.raises(ImproperlyConfigured, match=fix):
        misplaced()


@pytest.mark.one_setting
@pytest.mark.parametrize(("base", "name"), [(APIView, "get"), (ViewSet, "list"), (ViewSet, "retrieve"), (View, "head")])
def test_row_28_a_safe_method_has_nothing_to_protect(base: Any, name: str) -> None:
    """Said when the class is made."""
    with pytest.raises((ImproperlyConfigured, RuntimeError)) as raised:
        type("Safe", (base,), {name: PROTECT(view)})
    error = raised.value.__cause__ or raised.value  # Python before 3.12 wraps what __set_name__ raises
    assert isinstance(error, ImproperlyConfigured)
    assert "safe method" in str(error)


@each_kind
def test_row_29_every_place_works(send: Sender, ledger: Ledger, kind: str) -> None:
    """Method, actions above and below @action, @api_view, plain and class-based views: one effect for each key."""
    for number, place in enumerate(PLACES, 1):
        answers = [send(f"/{kind}/{place}", place, number=place) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 201], place
        assert ledger.of(kind) == number


def test_row_29_an_async_view_works(protected_views: None, ledger: Ledger) -> None:
    """With one effect and a replay."""

    async def pays(request: Any) -> Any:
        return await sync_to_async(work)({"number": "async"})

    protected = idempotent("rows.async", mode="journaled", identity="machine")(pays)
    headers = {"HTTP_IDEMPOTENCY_KEY": "k"}
    answers = [async_to_sync(protected)(RequestFactory().post("/async/", **headers)) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert (answers[1].content, answers[1]["Idempotent-Replayed"]) == (answers[0].content, "true")
    assert ledger.applied() == 1


@pytest.mark.one_setting
def test_row_29_what_others_put_on_a_view_stays() -> None:
    """Attributes, name, module and signature of the function are those of the view."""
    protected = PROTECT(csrf_exempt(view))
    assert protected.csrf_exempt is True  # type: ignore[attr-defined]
    assert (protected.__name__, protected.__module__) == ("view", __name__)  # type: ignore[attr-defined]
    extra = PROTECT(action(detail=True, methods=["post"], url_path="x")(view))
    assert extra.url_path == "x"  # type: ignore[attr-defined]
