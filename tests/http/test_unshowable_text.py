"""Text that cannot be shown, from a client or a provider: no answer and no status is lost by it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import clear_url_caches
from rest_framework.response import Response

import effects
from effects.http.problems import problem
from effects.models import Execution, Request
from effects.testing import provider_says
from effects.vocabulary.exceptions import PayloadError
from tests.core.declared import Charge, ChargePayload
from tests.core.people import PAYLOAD
from tests.http import does
from tests.http.conftest import Sender
from tests.http.demanding import told
from tests.http.reading import body, code, state

pytestmark = pytest.mark.django_db(transaction=True)
HALVES = ["\ud800", "a\udfff", "\udc80"]


@pytest.fixture
def demanding(protected_views: None, settings: Any) -> Iterator[None]:
    """Views that demand an output of everything, and answer by REST framework, which writes no escapes."""
    settings.ROOT_URLCONF = "tests.http.demanding"
    clear_url_caches()
    told.reset()

    def answer(*outcomes: Any) -> Any:
        return Response({"outputs": [outcome.require() for outcome in outcomes]})

    told.answer = answer
    told.handle = lambda: answer(effects.perform(Charge, payload=PAYLOAD, key="c"))
    yield
    told.reset()


@pytest.mark.usefixtures("demanding")
@pytest.mark.parametrize("half", HALVES)
def test_what_a_provider_said_is_answered(send: Sender, half: str) -> None:
    """A completed charge is answered at once and again, whatever its output holds."""
    with provider_says(Charge, effects.Applied({"id": half, half: half}, half)) as provider:
        first, second = send("/api/"), send("/api/")
    assert (first.status_code, second.content) == (200, first.content)
    assert "\ufffd" in body(first)["outputs"][0]["id"]
    assert (state(), len(provider.sends)) == ("answered", 1)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("kind", ["declared", "opaque", "transactional"])
@pytest.mark.parametrize("place", ["api/", "plain/"])
def test_half_of_a_character_in_a_body_is_400(send: Sender, half: str, kind: str, place: str) -> None:
    """No handler could keep it, send it or answer with it: nothing runs and nothing is recorded."""
    bare = json.dumps({"do": "nothing", "x": half}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    for body_of in (json.dumps({"do": "nothing", "x": half}).encode(), json.dumps({half: 1}).encode(), bare):
        for content_type in ("application/json", "application/json; charset=latin-1")[: 1 + (body_of != bare)]:
            refused = send(f"/{kind}/{place}", body=body_of, content_type=content_type)
            assert (refused.status_code, code(refused)) == (400, "idempotency_request_invalid")
    assert not does.calls
    assert not Request.objects.exists()


@pytest.mark.parametrize("text", ["🙂", "\\ud800", "\\\\ud83d 🙂🙂", "\\u", "퟿\ue000", "\\\\\\🙂\\ude00"])
def test_whole_characters_are_taken(send: Sender, text: str) -> None:
    """However they are written: as pairs of escapes, as bytes, beside backslashes that stand for themselves."""
    for number, ascii_only in enumerate((True, False)):
        written = json.dumps({"do": "nothing", "x": text}, ensure_ascii=ascii_only).encode()
        assert send("/transactional/api/", f"k{number}", body=written).status_code == 200


def test_two_letters_of_another_charset_are_no_half(send: Sender) -> None:
    """What would be half of a character as UTF-8 is two letters as Latin-1."""
    written = json.dumps({"do": "nothing", "x": "\xed\xa0\xbf"}, ensure_ascii=False).encode("latin-1")
    sent = send("/transactional/api/", body=written, content_type="application/json; charset=latin-1")
    assert sent.status_code == 200


def test_a_payload_with_half_of_a_character_frees_the_key(send: Sender) -> None:
    """One that the handler made itself, by cutting a text in the middle: nothing is recorded, nothing is sent."""
    does.DOES["charge_half"] = lambda data: effects.perform(Charge, payload=ChargePayload("\ud83d", 1), key="w")
    with pytest.raises(PayloadError, match=r"\$\.customer"):
        send("/declared/api/", do="charge_half", raises=True)
    assert not Execution.objects.exists()
    assert state() == "released"


@pytest.mark.parametrize("bad", [*HALVES, "a\x00b", "x" * 300])
def test_a_caller_that_cannot_be_recorded_is_400(send: Sender, monkeypatch: Any, settings: Any, bad: str) -> None:
    """`SUBJECT`, `TENANT`, `identity=` and `scope=` may say what a client sent; two such names never become one."""
    for setting in ("SUBJECT", "TENANT"):
        settings.EFFECTS = {setting: lambda request: bad}
        for url in ("/transactional/api/", "/declared/plain/"):
            refused = send(url, do="nothing")
            assert (refused.status_code, code(refused)) == (400, "idempotency_request_invalid")
            assert refused.content.isascii()
    assert not Request.objects.exists()
    settings.EFFECTS = {}
    assert send("/transactional/api/", do="nothing").status_code == 200
    settings.EFFECTS = {"SUBJECT": lambda request: bad}
    assert send(f"/operations/{Request.objects.get().pk}/", None, method="GET").status_code == 404


@pytest.mark.parametrize(
    "path", ["/transactional/api/?q=%ED%A0%80", "/transactional/api/?%00=%FF", "/nowhere/%ED%A0%80"]
)
def test_addresses_are_digested_whatever_they_hold(send: Sender, path: str) -> None:
    """Bytes that are no text count as they are."""
    answer = send(path, do="nothing")
    assert answer.status_code in (200, 404)


@pytest.mark.parametrize("half", HALVES)
def test_problems_are_ascii(send: Sender, half: str) -> None:
    """A detail that repeats such text goes out all the same."""

    answer = problem("idempotency_request_invalid", detail=f"é {half}", extra={"field": half})
    assert answer.content.isascii()
    assert json.loads(answer.content)["field"] == half
