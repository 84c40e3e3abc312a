"""The status resource."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import path

import effects
from effects.http.status import status_url
from effects.journal.queries import get_request
from effects.models import Request
from effects.testing import provider_says
from effects_admin.cases import RequestCase
from tests.core.declared import Charge
from tests.http.conftest import Sender

pytestmark = pytest.mark.django_db(transaction=True)


def ask(send: Sender, row: Request, **options: Any) -> Any:
    return send(f"/operations/{row.pk}/", None, method="GET", **options)


def test_it_says_where_an_operation_stands(send: Sender) -> None:
    """State, code, hints; no answer's body."""
    with provider_says(Charge, TimeoutError("t")):
        refused = send("/declared/api/", do="charge")
    row = Request.objects.get()
    response = ask(send, row)
    assert (response.status_code, response["Retry-After"], response["Cache-Control"]) == (200, "30", "no-store")
    assert json.loads(response.content) == {
        "operation_ref": str(row.pk),
        "operation": "declared.api",
        "operation_state": "uncertain",
        "code": "operation_uncertain",
        "safe_new_key": False,
        "status_url": f"/operations/{row.pk}/",
        "poll_after_seconds": 30,
    }
    problem = json.loads(refused.content)
    assert (problem["operation_ref"], problem["status_url"]) == (str(row.pk), f"/operations/{row.pk}/")


def test_an_answered_one_says_its_status(send: Sender) -> None:
    """The answer itself is got by sending the request again."""
    send("/transactional/api/", do="empty")
    response = json.loads(ask(send, Request.objects.get()).content)
    assert (response["operation_state"], response["code"], response["answer_status"]) == (
        "answered",
        "operation_answered",
        204,
    )
    assert "poll_after_seconds" not in response


def test_it_is_there_for_its_own_sender_alone(send: Sender) -> None:
    """404 for other users and for anybody unknown; and for what does not exist."""
    send("/transactional/api/", do="nothing")
    row = Request.objects.get()
    assert ask(Sender(User.objects.create_user("bob")), row).status_code == 404
    assert ask(Sender(None), row).status_code == 404
    assert send("/operations/00000000-0000-7000-8000-000000000000/", None, method="GET").status_code == 404
    assert send(f"/operations/{row.pk}/", None, method="POST").status_code == 405


def test_rest_frameworks_authenticators_are_asked(send: Sender, user: User) -> None:
    """A password in the header is enough, and a wrong one is refused."""
    user.set_password("s3cret")
    user.save()
    # the new password has ended the session
    send = Sender(user)
    send("/transactional/api/", do="nothing")
    row = Request.objects.get()
    right, wrong = (base64.b64encode(f"ada:{word}".encode()).decode() for word in ("s3cret", "other"))
    assert ask(Sender(None), row, headers={"Authorization": f"Basic {right}"}).status_code == 200
    refused = ask(Sender(None), row, headers={"Authorization": f"Basic {wrong}"})
    assert (refused.status_code, "WWW-Authenticate" in refused) == (401, True)


def test_an_identity_of_the_view_counts_here_too(send: Sender) -> None:
    """The view's `identity=` says who may ask."""
    Sender(None)("/webhook/", do="nothing", headers={"X-Sender": "stripe"})
    row = Request.objects.get()
    assert ask(Sender(None), row, headers={"X-Sender": "stripe"}).status_code == 200
    assert ask(Sender(None), row, headers={"X-Sender": "other"}).status_code == 404


class _Without:
    urlpatterns = [path("x/", lambda request: None)]


def test_without_its_urls_there_is_no_address(send: Sender, settings: Any) -> None:
    """A project that does not include `effects.urls` gets answers without a status_url."""
    send("/transactional/api/", do="nothing")
    found = get_request(Request.objects.get().pk)
    settings.ROOT_URLCONF = _Without
    assert status_url(found) is None
    assert effects.get  # the package is whole without them


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("/transactional/api/", effects.Applied({"id": "ch_1"}, "ch_1")),
        ("/declared/api/", effects.Applied({"id": "ch_1"}, "ch_1")),
        ("/declared/api/", TimeoutError("t")),
    ],
    ids=["answered", "answered by an effect", "in doubt"],
)
@pytest.mark.parametrize("version", [0, 99])
def test_an_unknown_definition_is_told_as_a_retry_is(send: Sender, url: str, told: Any, version: int) -> None:
    """Settled or not: the retry, the status resource and the console say the same of it."""
    do = "charge" if "declared" in url else "nothing"
    with provider_says(Charge, told):
        send(url, do=do)
    Request.objects.update(fingerprint_version=version)
    row = Request.objects.get()
    refused = send(url, do=do)
    problem, status = json.loads(refused.content), json.loads(ask(send, row).content)
    assert (refused.status_code, problem["code"]) == (409, "operation_policy_changed")
    for member in ("code", "operation_state", "safe_new_key", "status_url"):
        assert status[member] == problem[member]
    assert ("poll_after_seconds" in status) == (row.ended_at is None)
    assert not RequestCase(row, row.created_at, None).is_comparable


def test_an_unknown_definition_of_a_free_key_hinders_nobody(send: Sender) -> None:
    """A released request is not compared: the next one runs."""
    assert send("/declared/api/", do="invalid").status_code == 400
    Request.objects.update(fingerprint_version=99)
    assert json.loads(ask(send, Request.objects.get()).content)["code"] == "operation_released"
    assert send("/declared/api/", do="nothing").status_code == 200
