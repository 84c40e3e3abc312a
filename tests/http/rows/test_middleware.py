"""Row 41: what other middleware does to an answer, it does to each exchange anew."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as project

from effects.models import Request
from tests.http.conftest import Sender
from tests.http.rows.conftest import Ledger
from tests.http.rows.shop import KINDS

pytestmark = pytest.mark.django_db(transaction=True)
each_kind = pytest.mark.parametrize("kind", KINDS)
SHOP, OTHER = "https://shop.example", "https://other.example"
#: What a page of another origin must be allowed to send, and to read.
SENT = ("Idempotency-Key",)
READ = ("Idempotent-Replayed", "Idempotency-Status", "Retry-After", "Location", "Link")


@pytest.fixture(autouse=True)
def around(settings: Any) -> None:
    """Put gzip, conditional GET and CORS around the views, as their documentation says."""
    settings.MIDDLEWARE = [
        "django.middleware.gzip.GZipMiddleware",
        "corsheaders.middleware.CorsMiddleware",
        "django.middleware.http.ConditionalGetMiddleware",
        *settings.MIDDLEWARE,
    ]
    settings.CORS_ALLOWED_ORIGINS = [SHOP, OTHER]
    settings.CORS_ALLOW_HEADERS = ["authorization", "content-type", *(name.lower() for name in SENT)]
    settings.CORS_EXPOSE_HEADERS = list(READ)


def plain(response: Any) -> bytes:
    """The bytes that a client makes of an answer."""
    whole: bytes = response.content
    return gzip.decompress(whole) if response.get("Content-Encoding") == "gzip" else whole


@each_kind
def test_row_41_a_client_with_other_capabilities_gets_the_replay(send: Sender, ledger: Ledger, kind: str) -> None:
    """Captured inside of gzip: with and without it, in either order, the same bytes, and a length that fits."""
    for number, (first_takes, second_takes) in enumerate((("gzip", "identity"), ("identity", "gzip")), 1):
        key, sent = first_takes, {"do": "headers", "number": first_takes, "pad": "x" * 300}
        first = send(f"/{kind}/api/", key, headers={"Accept-Encoding": first_takes}, **sent)
        again = send(f"/{kind}/api/", key, headers={"Accept-Encoding": second_takes}, **sent)
        assert first.status_code == again.status_code == 201
        packed = {first_takes: first, second_takes: again}
        assert packed["gzip"]["Content-Encoding"] == "gzip"
        assert "Content-Encoding" not in packed["identity"]
        assert plain(first) == plain(again) == packed["identity"].content
        assert {int(each["Content-Length"]) == len(each.content) for each in (first, again)} == {True}
        assert "Accept-Encoding" in again["Vary"]
        assert (packed["gzip"]["ETag"], packed["identity"]["ETag"]) == ('W/"1"', '"1"')
        stored = {name.lower(): value for name, value in Request.objects.get(key=key).answer_headers}
        assert stored["etag"] == '"1"'
        assert not {"content-encoding", "content-length"} & set(stored)
        assert ledger.of(kind) == number


@each_kind
def test_row_41_a_body_that_the_view_packed_itself_is_not_stored(send: Sender, ledger: Ledger, kind: str) -> None:
    """Another client may not read it: an honest no."""
    first = send(f"/{kind}/api/", do="packed", headers={"Accept-Encoding": "gzip"})
    assert json.loads(gzip.decompress(first.content)) == {"packed": True}
    again = send(f"/{kind}/api/", do="packed", headers={"Accept-Encoding": "identity"})
    assert (again.status_code, json.loads(again.content)["code"]) == (409, "operation_result_unavailable")
    assert ledger.of(kind) == 1


@each_kind
def test_row_41_conditional_requests_change_nothing(send: Sender, ledger: Ledger, kind: str) -> None:
    """`If-None-Match` with the ETag of the answer: the replay is whole, no 304 for a POST."""
    first = send(f"/{kind}/api/", do="headers")
    for name in ("If-None-Match", "If-Match"):
        again = send(f"/{kind}/api/", do="headers", headers={name: first["ETag"]})
        assert (again.status_code, again.content, again["ETag"]) == (201, first.content, first["ETag"])
    assert ledger.of(kind) == 1


@each_kind
def test_row_41_each_origin_gets_its_own_cors_headers(send: Sender, ledger: Ledger, kind: str) -> None:
    """Those of the first page are not replayed to the second; the preflight takes no key."""
    preflight = send(
        f"/{kind}/api/", None, method="OPTIONS",
        headers={"Origin": SHOP, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": SENT[0]},
    )  # fmt: skip
    assert preflight.status_code == 200
    assert SENT[0].lower() in preflight["Access-Control-Allow-Headers"]
    for origin, replayed in ((SHOP, None), (OTHER, "true")):
        answer = send(f"/{kind}/api/", headers={"Origin": origin})
        assert (answer.status_code, answer["Access-Control-Allow-Origin"]) == (201, origin)
        assert answer.get("Idempotent-Replayed") == replayed
        assert set(READ) <= {name.strip() for name in answer["Access-Control-Expose-Headers"].split(",")}
    assert "access-control-allow-origin" not in json.dumps(Request.objects.get().answer_headers).lower()
    refused = send(f"/{kind}/api/", number="2", headers={"Origin": "https://evil.example"})
    assert refused.status_code == 422
    assert "Access-Control-Allow-Origin" not in refused
    assert ledger.of(kind) == 1


@pytest.mark.one_setting
def test_row_41_the_docs_name_the_cors_headers() -> None:
    """Each header that a page must be allowed to send or to read stands in the guide."""
    guide = (Path(project.BASE_DIR) / "docs" / "guides" / "protect-a-view.md").read_text("utf-8")
    for name in (*SENT, *READ, "CORS_ALLOW_HEADERS", "CORS_EXPOSE_HEADERS"):
        assert name in guide
