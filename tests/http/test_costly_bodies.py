"""What a request costs before anybody is charged: any body is digested within a tenth of a second, or refused."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest

from effects.http.bodies import BodyTooLargeError, BodyUnreadableError
from effects.http.fingerprints import MAX_FIELDS, FingerprintFields, fingerprint
from effects.http.json_bodies import MAX_DEPTH, MAX_MARKS
from effects.models import Request
from tests.http import does
from tests.http.asking import FORM, JSON, KINDS, plain, same
from tests.http.conftest import Sender

MIB = 1024 * 1024


def filled(unit: bytes, between: bytes = b",") -> bytes:
    return between.join([unit] * ((MIB - 2) // (len(unit) + len(between))))


def names(count: int) -> bytes:
    return b"{" + b",".join(b'"%x":1' % number for number in range(count)) + b"}"


COSTLY: dict[str, tuple[bytes, str]] = {
    "small numbers": (b"[" + filled(b"1") + b"]", JSON),
    "as many numbers as are taken apart": (b"[" + b",".join([b"1"] * (MAX_MARKS - 2)) + b"]", JSON),
    "empty objects": (b"[" + filled(b"{}") + b"]", JSON),
    "as many objects as are taken apart": (b"[" + b",".join([b"{}"] * (MAX_MARKS // 2 - 2)) + b"]", JSON),
    "empty lists": (b"[" + filled(b"[]") + b"]", JSON),
    "objects": (b"[" + filled(b'{"a":1}') + b"]", JSON),
    "names": (names(110_000), JSON),
    "as many names as are taken apart": (names(MAX_MARKS // 2 - 2), JSON),
    "one name": (b"{" + filled(b'"":1') + b"}", JSON),
    "strings": (b"[" + filled(b'""') + b"]", JSON),
    "escapes": (b'"' + filled(b"\\u00e9", b"") + b'"', JSON),
    "pairs": (b'"' + filled(b"\\ud83d\\ude00", b"") + b'"', JSON),
    "backslashes": (b'"' + filled(b"\\\\", b""), JSON),
    "one huge number": (filled(b"1", b""), JSON),
    "huge numbers": (b"[" + filled(b"9" * 4000) + b"]", JSON),
    "nested": (b"[" + filled(b"[" * 150 + b"]" * 150) + b"]", JSON),
    "nested objects": (b"[" + filled(b'{"":' * 150 + b"1" + b"}" * 150) + b"]", JSON),
    "nested without end": (b"[" * MIB, JSON),
    "closed without beginning": (b"]" * MIB, JSON),
    "broken at its end": (b"[" + filled(b"1") + b"x", JSON),
    "fields": (filled(b"a", b"&"), FORM),
    "fields without names": (b"&" * MIB, FORM),
    "escapes of a form": (b"a=" + filled(b"%41", b""), FORM),
    "named fields": (b"&".join(b"%x=" % number for number in range(100_000)), FORM),
}


@pytest.mark.parametrize("limit", [1000, None])
@pytest.mark.parametrize("fields", [None, FingerprintFields(exclude=("nonce",))], ids=["whole", "by field"])
@pytest.mark.parametrize("name", COSTLY)
def test_any_body_costs_less_than_a_tenth_of_a_second(name: str, fields: Any, limit: int | None, settings: Any) -> None:
    """One MiB of the worst is digested, or refused, faster than anybody could ask for it again.

    The bound is generous, for a machine that is busy: here it takes 0.07 s at most, and 0.8 s before there was one.
    """
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = limit
    took = []
    for _ in range(3):
        request = plain(*COSTLY[name])
        began = time.thread_time()
        with contextlib.suppress(BodyTooLargeError, BodyUnreadableError):
            fingerprint(request, fields)
        took.append(time.thread_time() - began)
    assert min(took) < 0.3


def test_a_long_query_costs_no_more() -> None:
    """A query as long as any server lets in is digested as it stands, and still told from another."""
    for text in ("a&" * 50_000, "%41" * 110_000, "\xff" * 100_000):
        first, again, other = plain(), plain(), plain()
        first.META["QUERY_STRING"] = again.META["QUERY_STRING"] = text
        other.META["QUERY_STRING"] = text + "b"
        began = time.thread_time()
        assert same(first, again)
        assert not same(first, other)
        assert time.thread_time() - began < 0.8


class TestWhatIsTooMuch:
    def test_by_bytes_what_holds_too_many_members(self) -> None:
        """Such a body is the same if its bytes are; where only some of its members count, it is refused."""
        value = list(range(MAX_MARKS + 1))
        body, spread = json.dumps(value, separators=(",", ":")).encode(), json.dumps(value).encode()
        assert same(plain(body), plain(body))
        assert not same(plain(body), plain(spread))
        with pytest.raises(BodyTooLargeError, match="told apart"):
            fingerprint(plain(body), FingerprintFields(exclude=("nonce",)))

    def test_by_value_what_holds_fewer(self) -> None:
        """Long texts with commas and a payload of a thousand items count by value."""
        value = [{"sku": f"item-{number}", "note": "one, two: [three]", "price": "1.50"} for number in range(1000)]
        compact = json.dumps(value, separators=(",", ":")).encode()
        assert same(plain(compact), plain(json.dumps(value, indent=2, sort_keys=True).encode()))

    @pytest.mark.parametrize(
        "body",
        [
            b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
            b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
            b"[" * 100_000,
            b'["]]]]",' + b'{"\\"}":[' * MAX_DEPTH + b"]}" * MAX_DEPTH + b"]",
            b"[1," * (MAX_DEPTH + 1) + b"[1]" * MAX_MARKS,
        ],
    )
    def test_deep_json_is_refused_in_words(self, body: bytes) -> None:
        """However it is nested, and whatever brackets its strings hold; a reader would give up in the handler."""
        with pytest.raises(BodyUnreadableError, match=f"more than {MAX_DEPTH} deep") as caught:
            fingerprint(plain(body))
        assert caught.value.status == 400

    @pytest.mark.parametrize(
        "body",
        [
            b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
            b"[" + b"[]," * 5000 + b"[]]",
            json.dumps({"text": "[" * 1000 + "{" * 1000}).encode(),
            json.dumps({"text": '"[\\' * 1000}).encode(),
        ],
    )
    def test_what_is_not_deep_is_taken(self, body: bytes) -> None:
        """Brackets in strings, and brackets beside each other, nest nothing."""
        assert same(plain(body), plain(body.replace(b":", b": ", 1) if b'{"text":' in body else body + b" "))

    @KINDS
    def test_more_fields_than_django_takes(self, kind: Any, settings: Any) -> None:
        """A form of more fields than the project's limit is refused; without a limit a long one counts by its bytes."""
        settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 3
        assert same(kind(plain(b"a=1&b=2&c=3", FORM)), kind(plain(b"c=3&b=2&a=1", FORM)))
        with pytest.raises(BodyTooLargeError, match="3 fields"):
            fingerprint(kind(plain(b"a=1&b=2&c=3&d=4", FORM)))
        settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = None
        long = b"&".join([b"a=1"] * (MAX_FIELDS + 1))
        assert same(kind(plain(long, FORM)), kind(plain(long, FORM)))
        assert not same(kind(plain(long, FORM)), kind(plain(long + b"&a=2", FORM)))
        with pytest.raises(BodyTooLargeError, match="told apart"):
            fingerprint(kind(plain(long, FORM)), FingerprintFields(exclude=("csrf",)))


@pytest.mark.parametrize("name", ["small numbers", "names", "objects", "nested", "strings"])
def test_the_cost_grows_with_the_body_and_no_faster(name: str) -> None:
    """Four times the body takes about four times as long: nothing here is worse than linear."""
    unit = {"small numbers": b"1", "names": b'{"%s":1}', "objects": b'{"a":1}', "nested": b"[[[[]]]]", "strings": b'""'}

    def cost(count: int) -> float:
        body = b"[" + b",".join([unit[name]] * count) + b"]"
        took = []
        for _ in range(5):
            request = plain(body)
            began = time.thread_time()
            fingerprint(request)
            took.append(time.thread_time() - began)
        return min(took)

    assert cost(16_000) < 12 * cost(4000)


DEEP = [
    (b"[" * 100_000, JSON),
    (b'{"do":' * 5000 + b"1" + b"}" * 5000, JSON),
    (b"[" * 100_000, f"{JSON}; charset=latin-1"),
    (("[" * 50_000).encode("utf-16"), f"{JSON}; charset=utf-16"),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("body", "content_type"), DEEP, ids=["lists", "objects", "latin-1", "utf-16"])
@pytest.mark.parametrize("kind", ["transactional", "opaque", "declared"])
def test_deep_json_is_400_on_protected_views(send: Sender, kind: str, body: bytes, content_type: str) -> None:
    """Nothing is recorded and no handler runs, in any mode."""
    refused = send(f"/{kind}/api/", body=body, content_type=content_type)
    assert (refused.status_code, json.loads(refused.content)["code"]) == (400, "idempotency_request_invalid")
    assert "deep" in json.loads(refused.content)["detail"]
    assert not Request.objects.exists()
    assert not does.calls
