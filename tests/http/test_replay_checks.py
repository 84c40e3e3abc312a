"""Who may see a stored answer: rows 9, 15 and 17 of the HTTP contract, asked on each replay."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import Client
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.views import APIView

from effects.http.decorators import idempotent
from effects.models import Request
from tests.http import does
from tests.http.conftest import Sender
from tests.http.does import work
from tests.http.reading import body, code

pytestmark = pytest.mark.django_db(transaction=True)


class Entitled(BasePermission):
    """Asks for a permission of Django's."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(request.user.has_perm("auth.add_group"))


class Guarded(APIView):
    permission_classes = (Entitled,)

    @idempotent("guarded", mode="transactional")
    def post(self, request: Any) -> Any:
        return work(request.data)

    @idempotent("guarded.journaled", mode="journaled")
    def patch(self, request: Any) -> Any:
        return work(request.data)


class AnswersBlank(APIView):
    @idempotent("blank", mode="journaled", identity=lambda request: "")
    def post(self, request: Any) -> Any:
        return Response({})


@csrf_exempt
@idempotent("asynchronous", mode="journaled")
async def asynchronous(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"n": len(does.calls)})


urlpatterns = [
    path("guarded/", Guarded.as_view()),
    path("blank/", AnswersBlank.as_view()),
    path("async/", asynchronous),
]
VIEWS = pytest.mark.parametrize(("url", "method"), [("/guarded/", "POST"), ("/guarded/", "PATCH"), ("/async/", "POST")])


@pytest.fixture
def ours(send: Sender, settings: Any) -> Sender:
    """Send to the views of this module, as somebody who may."""
    settings.ROOT_URLCONF = __name__
    assert send.user is not None
    send.user.user_permissions.add(Permission.objects.get(codename="add_group"))
    return send


@VIEWS
def test_row_17_each_replay_is_asked_about(ours: Sender, settings: Any, url: str, method: str) -> None:
    """Once a replay, with the request as its user sent it and a snapshot; not for the first answer, nor a refusal."""
    asked: list[tuple[str, str]] = []

    def check(request: Any, found: Any) -> None:
        asked.append((str(request.user), str(found.ref)))

    settings.EFFECTS = {"REPLAY_CHECK": check}
    first = ours(url, method=method, do="nothing")
    assert asked == []
    for _ in range(2):
        assert ours(url, method=method, do="nothing").content == first.content
    assert ours(url, method=method, do="empty").status_code == 422
    assert asked == [("ada", str(Request.objects.get().pk))] * 2


@VIEWS
def test_row_17_what_it_may_say(ours: Sender, settings: Any, url: str, method: str) -> None:
    """True lets through, False and an exception refuse, a response is sent instead; the key stays as it is."""
    first = ours(url, method=method, do="nothing")

    def told(verdict: Any) -> Any:
        settings.EFFECTS = {"REPLAY_CHECK": verdict}
        return ours(url, method=method, do="nothing")

    def refuse(request: Any, found: Any) -> None:
        raise PermissionDenied

    assert told(lambda request, found: True).content == first.content
    assert told(lambda request, found: False).status_code == 403
    assert told(refuse).status_code == 403
    assert told(lambda request, found: HttpResponse("gone", status=410)).status_code == 410
    assert "Idempotent-Replayed" not in told(lambda request, found: HttpResponse("gone", status=410))
    assert told(None).content == first.content
    assert Request.objects.get().state == "answered"


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_row_17_revoked_access_stops_replays(ours: Sender, method: str) -> None:
    """REST framework's own checks run on each replay: a permission that is gone, a user who is no more."""
    assert ours("/guarded/", method=method, do="nothing").status_code == 200
    assert ours.user is not None
    ours.user.user_permissions.clear()
    assert ours("/guarded/", method=method, do="nothing").status_code == 403
    client = Client()
    client.force_login(ours.user)
    User.objects.update(is_active=False)
    again = client.generic(
        method, "/guarded/", b'{"do": "nothing"}', "application/json", headers={"Idempotency-Key": "k"}
    )
    assert again.status_code in (401, 403)
    assert len(does.calls) == 1


def test_row_9_nobody_shares_a_bucket(ours: Sender) -> None:
    """An anonymous caller and an identity that names nobody are refused, in each kind of view; nothing is recorded."""
    nobody = Sender(None)
    for url in ("/guarded/", "/blank/", "/async/"):
        assert nobody(url, do="nothing").status_code in (401, 403)
    assert ours("/blank/", do="nothing").status_code in (401, 403)
    assert not Request.objects.exists()
    assert not does.calls


def test_row_8_another_caller_sees_nothing(ours: Sender, approver: User) -> None:
    """The same key of another user is another request: no replay, no 422, no hint that there was one."""
    assert body(ours("/async/", do="nothing")) == {"n": 0}
    other = Sender(approver)("/async/", do="empty")
    assert (other.status_code, "Idempotent-Replayed" in other) == (200, False)
    assert Request.objects.count() == 2
    assert code(ours("/async/", do="empty")) == "idempotency_key_reused"
