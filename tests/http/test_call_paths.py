"""Protected methods that another method of the class calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.views import View
from django.views.generic.edit import FormView
from drf_spectacular.generators import SchemaGenerator
from rest_framework import generics, serializers, viewsets
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView

from effects.http.call_paths import protection_behind
from effects.http.decorators import idempotent
from effects.http.drf import ReplaySparingUserRateThrottle
from effects.inspection.checks import views as checks
from effects.models import Request
from tests.http.conftest import Sender


class TwoAMinute(ReplaySparingUserRateThrottle):
    rate = "2/min"


class GroupSerializer(serializers.ModelSerializer[Group]):
    class Meta:
        model = Group
        fields = ("id", "name")


class Generic:
    queryset = Group.objects.order_by("pk")
    serializer_class = GroupSerializer
    throttle_classes = (TwoAMinute,)


class Create(Generic, generics.ListCreateAPIView[Group]):
    @idempotent("paths.create", mode="transactional")
    def create(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return super().create(request, *args, **kwargs)


class Update(Generic, generics.RetrieveUpdateDestroyAPIView[Group]):
    @idempotent("paths.update", mode="transactional")
    def update(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return super().update(request, *args, **kwargs)

    @idempotent("paths.destroy", mode="transactional")
    def destroy(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return super().destroy(request, *args, **kwargs)


class ViewSet(Generic, viewsets.ModelViewSet[Group]):
    """PATCH reaches `partial_update`, which calls `update`."""

    @idempotent("paths.set", mode="transactional")
    def update(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return super().update(request, *args, **kwargs)


class Through(Generic, generics.GenericAPIView[Group]):
    """A project's own step between the handler and the protected method, in a function within."""

    def post(self, request: Any) -> Response:
        take = lambda: self.take(request)  # noqa: E731
        return take()

    def take(self, request: Any) -> Response:
        return self.store(request)

    @idempotent("paths.through", mode="transactional")
    def store(self, request: Any) -> Response:
        made = Group.objects.create(name=request.data["name"])
        return Response({"id": made.pk, "in_block": connection.in_atomic_block}, 201)


class PlainClass(View):
    """Django's own class, whose `put` calls the protected `post` of its parent class."""

    @idempotent("paths.plain", mode="transactional", identity="machine")
    def post(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(Group.objects.create(name="plain").name, "text/plain", 201)


class PlainChild(PlainClass):
    def put(self, request: HttpRequest) -> Any:
        return super().post(request)

    def post(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("open", status=200)


class Lost(APIView):
    """No handler is seen to call the protected method."""

    def post(self, request: Any) -> Any:
        return getattr(self, "st" + "ore")(request)

    @idempotent("paths.lost", mode="transactional")
    def store(self, request: Any) -> Any: ...


router = SimpleRouter()
router.register("set", ViewSet)
urlpatterns = [
    path("create/", Create.as_view()),
    path("update/<int:pk>/", Update.as_view()),
    path("", include(router.urls)),
    path("through/", Through.as_view()),
    path("plain/", PlainChild.as_view()),
]


@pytest.fixture(autouse=True)
def _own_urls(request: Any, settings: Any) -> Iterator[None]:
    settings.ROOT_URLCONF = __name__
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def group(transactional_db: None) -> Group:
    return Group.objects.create(name="there")


@pytest.fixture
def sends(send: Sender, settings: Any) -> Sender:
    settings.ROOT_URLCONF = __name__
    return send


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("method", "address", "status", "operation"),
    [
        ("POST", "/create/", 201, "paths.create"),
        ("PUT", "/update/{pk}/", 200, "paths.update"),
        ("PATCH", "/update/{pk}/", 200, "paths.update"),
        ("DELETE", "/update/{pk}/", 204, "paths.destroy"),
        ("PUT", "/set/{pk}/", 200, "paths.set"),
        ("PATCH", "/set/{pk}/", 200, "paths.set"),
        ("POST", "/through/", 201, "paths.through"),
        ("PUT", "/plain/", 201, "paths.plain"),
    ],
)
def test_a_protected_method_that_a_handler_calls_is_protected(
    sends: Sender, group: Group, method: str, address: str, status: int, operation: str
) -> None:
    """It runs outside of ATOMIC_REQUESTS, is replayed, and its replays are charged to nobody."""
    url = address.format(pk=group.pk)
    answers = [sends(url, method=method, name="new") for _ in range(4)]
    assert {(answer.status_code, answer.content) for answer in answers} == {(status, answers[0].content)}
    assert [answer.get("Idempotent-Replayed") for answer in answers] == [None, "true", "true", "true"]
    assert Request.objects.get().operation == operation


@pytest.mark.django_db(transaction=True)
def test_an_unprotected_method_beside_it_keeps_its_transaction(sends: Sender, atomic_requests: bool) -> None:
    """A method that reaches nothing protected has the transaction that the project configured."""
    seen: list[bool] = []
    original = Create.list
    Create.list = lambda self, *args, **kwargs: (  # type: ignore[assignment,method-assign]
        seen.append(connection.in_atomic_block),
        original(self, *args, **kwargs),
    )[1]
    try:
        assert sends("/create/", method="GET", body=b"").status_code == 200
    finally:
        Create.list = original  # type: ignore[method-assign]
    assert seen == [atomic_requests]


@pytest.mark.parametrize(
    ("view", "method", "protected"),
    [
        (Create, "post", True), (Create, "get", False), (Update, "patch", True), (Update, "get", False),
        (ViewSet, "partial_update", True), (ViewSet, "create", False), (Through, "post", True),
        (PlainChild, "put", True), (PlainChild, "post", False), (Lost, "post", False),
    ],
)  # fmt: skip
def test_what_leads_to_a_protected_method(view: type[Any], method: str, protected: bool) -> None:
    """Methods of its own, of parents, and steps between are followed; a name that is computed is not."""
    assert (protection_behind(view, method) is not None) is protected


def test_checks_and_schema_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks find the operations, and the schema shows the key, where a handler leads to a protected method."""
    assert {view.name for view in checks.protected_views()} == {
        "paths.create", "paths.update", "paths.destroy", "paths.set", "paths.through", "paths.plain",
    }  # fmt: skip
    assert checks.check_paths_to_protection() == []
    schema: Any = SchemaGenerator(urlconf=__name__).get_schema(public=True)  # type: ignore[no-untyped-call]
    with_key = {
        (address, method)
        for address, methods in schema["paths"].items()
        for method, operation in methods.items()
        if any(it["name"] == "Idempotency-Key" for it in operation.get("parameters", ()))
    }
    assert with_key == {
        ("/create/", "post"), ("/update/{id}/", "put"), ("/update/{id}/", "patch"), ("/update/{id}/", "delete"),
        ("/set/{id}/", "put"), ("/set/{id}/", "patch"), ("/through/", "post"),
    }  # fmt: skip


def test_w015_a_protected_method_that_nobody_is_seen_to_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check names the class and the method, and says where the decorator goes."""
    monkeypatch.setattr("tests.http.test_call_paths.urlpatterns", [path("lost/", Lost.as_view())])
    from django.urls import clear_url_caches

    clear_url_caches()
    (message,) = checks.check_paths_to_protection()
    clear_url_caches()
    assert message.id == "effects.W015"
    assert "Lost.store at 'lost/'" in message.msg


@pytest.mark.parametrize(
    ("base", "name", "better"),
    [
        (generics.CreateAPIView, "perform_create", "create"),
        (generics.UpdateAPIView, "perform_update", "update"),
        (viewsets.ModelViewSet, "perform_destroy", "destroy"),
        (generics.GenericAPIView, "perform_payment", "post"),
        (APIView, "dispatch", "post"),
        (View, "dispatch", "post"),
        (viewsets.GenericViewSet, "initial", "create"),
        (FormView, "form_valid", "post"),
    ],
)
def test_what_answers_no_request_is_refused_at_import(base: Any, name: str, better: str) -> None:
    """The error names the method that answers the request, with the corrected lines."""

    def inner(self: Any, given: Any, *args: Any, **kwargs: Any) -> Any: ...

    with pytest.raises((ImproperlyConfigured, RuntimeError)) as raised:
        type("Wrong", (base,), {name: idempotent("paths.wrong", mode="transactional")(inner)})
    error = raised.value.__cause__ or raised.value  # Python before 3.12 wraps what __set_name__ raises
    assert isinstance(error, ImproperlyConfigured)
    assert f"def {better}(self, request, *args, **kwargs)" in str(error)


def test_a_method_without_a_request_is_refused_at_import() -> None:
    """A method that takes nothing but its own object cannot be told which request it answers."""

    def bare(self: Any) -> Any: ...

    make: Callable[[], Any] = lambda: type(  # noqa: E731
        "Wrong", (APIView,), {"store": idempotent("paths.bare", mode="transactional")(bare)}
    )
    with pytest.raises((ImproperlyConfigured, RuntimeError)):
        make()
