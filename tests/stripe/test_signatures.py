"""Who signed an event: what Stripe did not is nothing at all, and is said without a word of it."""

import json
import logging
import time
from datetime import timedelta
from typing import Any

import pytest
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.test import RequestFactory
from django.urls import clear_url_caches
from django.views.debug import ExceptionReporter

from effects.contrib import stripe as contrib
from effects.contrib.stripe import stripe_events, webhooks
from project.payments.effects import RefundPayment
from project.payments.models import Order
from tests.stripe.shop import again, applied, postponed, receipts, refund_of, refunded
from tests.stripe.signing import ADDRESS, SECRET, deliver, event_of, sign

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("endpoint")]
LOGGER = "effects.contrib.stripe"
HOUR = timedelta(hours=1)


def other_body(body: bytes) -> tuple[bytes, str]:
    return body.replace(b"succeeded", b"SUCCEEDED"), sign(body)


def other_secret(body: bytes) -> tuple[bytes, str]:
    return body, sign(body, "whsec_other")


def other_time(body: bytes) -> tuple[bytes, str]:
    return body, f"t={int(time.time()) + 1},{sign(body).partition(',')[2]}"


def too_old(body: bytes) -> tuple[bytes, str]:
    return body, sign(body, at=time.time() - 301)


def other_scheme(body: bytes) -> tuple[bytes, str]:
    return body, sign(body).replace("v1=", "v0=")


def no_header(body: bytes) -> tuple[bytes, str]:
    return body, ""


def no_signature(body: bytes) -> tuple[bytes, str]:
    return body, sign(body).partition(",")[0]


def no_time(body: bytes) -> tuple[bytes, str]:
    return body, sign(body).partition(",")[2]


def nonsense(body: bytes) -> tuple[bytes, str]:
    return body, "t=now,v1=ok"


def no_ascii(body: bytes) -> tuple[bytes, str]:
    return body, f"t={int(time.time())},v1=\u00e9\u00e9"


def cut_signature(body: bytes) -> tuple[bytes, str]:
    return body, sign(body)[:-1]


def empty_secret(body: bytes) -> tuple[bytes, str]:
    return body, sign(body, "")


def white_space(body: bytes) -> tuple[bytes, str]:
    return body + b" ", sign(body)


FORGERIES = [
    other_body, other_secret, other_time, too_old, other_scheme, no_header, no_signature, no_time, nonsense, no_ascii,
    cut_signature, empty_secret, white_space,
]  # fmt: skip


@pytest.mark.parametrize("forge", FORGERIES)
def test_what_is_not_signed_is_refused(forge: Any, order: Order, caplog: pytest.LogCaptureFixture) -> None:
    """Each kind of tampering is 400, records nothing, and leaves a line without the body."""
    row = postponed(refunded(order, TimeoutError()))
    body, header = forge(json.dumps(event_of(refund_of(row))).encode())
    assert deliver(body, header).status_code == 400
    assert again(row).receipt_count == row.receipt_count
    (line,) = [it for it in caplog.records if it.name == LOGGER]
    assert line.levelno == logging.WARNING
    assert not any(word in line.getMessage() for word in ("re_1", str(row.pk), row.provider_key, "4242", SECRET))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"null", b"\xff\xfe", b"[" * 100_000])
def test_what_cannot_be_read_is_refused(body: bytes) -> None:
    """Bytes that are no event are 400, signed or not."""
    assert deliver(body).status_code == 400


def test_a_large_body_is_refused_unread(settings: Any) -> None:
    """A Content-Length beyond the bound is enough: no byte of the body is read."""

    class Unread:
        def read(self, *args: Any) -> bytes:
            raise AssertionError("read")

    request = RequestFactory().post(ADDRESS, b"{}", "application/json")
    request.META["CONTENT_LENGTH"] = str(webhooks.MAX_EVENT_BYTES + 1)
    request._stream = Unread()
    assert stripe_events(request).status_code == 400
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    assert deliver(b" " * 101).status_code == 400


def test_a_body_of_unknown_length_is_refused() -> None:
    """Under ASGI nothing bounds a body that is sent in chunks."""
    request = RequestFactory().post(ADDRESS, b"{}", "application/json", headers={"Transfer-Encoding": "chunked"})
    del request.META["CONTENT_LENGTH"]
    assert stripe_events(request).status_code == 400


def test_a_body_that_somebody_consumed_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """A middleware read a form before the view: nothing can be verified, and the line says who to look for."""
    form = RequestFactory().post(ADDRESS, {"a": "b"})
    assert form.POST["a"] == "b"
    assert stripe_events(form).status_code == 400
    assert "middleware" in caplog.text


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
def test_only_post_is_allowed(method: str) -> None:
    """Nothing else is an event."""
    response = deliver(b"{}", method=method)
    assert (response.status_code, response["Allow"]) == (405, "POST")


def test_a_rolled_secret_is_one_of_several(settings: Any, order: Order) -> None:
    """While a secret is rolled, or for several endpoints, each of the list signs."""
    settings.STRIPE_WEBHOOK_SECRET = ["whsec_new", SECRET]
    row = postponed(refunded(order, TimeoutError()))
    body = json.dumps(event_of(refund_of(row))).encode()
    assert deliver(body, sign(body, "whsec_other")).status_code == 400
    assert deliver(body, sign(body, SECRET)).status_code == 200
    assert deliver(body, sign(body, "whsec_new")).status_code == 200
    # Stripe signs with both while it rolls one itself
    both = f"{sign(body, 'whsec_gone')},{sign(body, SECRET).partition(',')[2]}"
    assert deliver(body, both).status_code == 200
    assert receipts(again(row)).count("observe") == 1


def found_by_the_check() -> list[Any]:
    return [it for it in checks.run_checks(tags=["effects"]) if it.id == "effects.E019"]


WRONG = [
    None,
    "",
    [],
    ["whsec_1", ""],
    "   ",
    5,
    ["whsec_1", None],
    "sk_test_1",
    ["rk_live_1"],
    b"whsec_1",
    "whsec_1\n",
]


@pytest.mark.parametrize("secret", WRONG)
def test_without_a_secret_nothing_is_accepted(settings: Any, order: Order, secret: Any) -> None:
    """No secret, or none that can be one: an error that says what to write, for the check and for the request."""
    row = postponed(refunded(order, TimeoutError()))
    settings.STRIPE_WEBHOOK_SECRET = secret
    with pytest.raises(ImproperlyConfigured, match=r'STRIPE_WEBHOOK_SECRET = "whsec_…"') as raised:
        deliver(event_of(refund_of(row)))
    assert "sk_test_1" not in str(raised.value)
    assert deliver(event_of(refund_of(row)), raises=False).status_code == 500
    assert again(row).receipt_count == row.receipt_count
    (error,) = found_by_the_check()
    assert ADDRESS.strip("/") in error.msg
    assert "whsec_" in error.hint
    assert error.hint.endswith("/reference/checks/#effects-e019")


def test_without_a_setting_the_check_says_so(settings: Any) -> None:
    """The setting is not there at all; where the view is not in the URLs nobody asks for it."""
    del settings.STRIPE_WEBHOOK_SECRET
    assert len(found_by_the_check()) == 1
    settings.ROOT_URLCONF = "project.urls"
    clear_url_caches()
    assert found_by_the_check() == []


def test_with_a_secret_the_check_is_silent() -> None:
    """A text is a secret; none is ever sent anywhere to be tried."""
    assert found_by_the_check() == []


def test_the_view_is_a_public_name() -> None:
    """`effects.contrib.stripe` gives it on first use, and no name that there is not."""
    assert contrib.stripe_events is stripe_events
    assert "stripe_events" in contrib.__all__
    with pytest.raises(AttributeError, match="stripe_event'"):
        contrib.stripe_event  # noqa: B018


def test_a_report_of_what_raised_shows_no_secret(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mails to admins and error trackers show the variables of each frame; the project's code may raise in one."""
    monkeypatch.setattr(RefundPayment, "standing", lambda self, payload, found: found["no such member"])
    body = json.dumps(event_of(refund_of(refunded(order, applied())))).encode()
    headers = {"Stripe-Signature": sign(body)}
    request = RequestFactory().generic("POST", ADDRESS, body, "application/json", headers=headers)
    with pytest.raises(KeyError) as raised:
        stripe_events(request)
    report = ExceptionReporter(request, raised.type, raised.value, raised.tb).get_traceback_html()
    assert "no such member" in report
    assert SECRET not in report
