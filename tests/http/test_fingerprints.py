"""Fingerprints: rows 6 and 30 to 35 of the HTTP contract."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from django.test.client import MULTIPART_CONTENT
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import JSONParser
from rest_framework.request import Request

from effects.http.fingerprints import (
    DEFINITIONS,
    PARTS,
    VERSION,
    BodyUnreadableError,
    FingerprintFields,
    UnknownDefinitionError,
    compare,
    differs,
    fingerprint,
)
from effects.vocabulary.exceptions import PayloadError
from tests.http.asking import FORM, JSON, KINDS, as_is, drf, plain, same, upload


@KINDS
class TestParts:
    @pytest.mark.parametrize(
        ("other", "part"),
        [
            ({"method": "PUT"}, "method"),
            ({"path": "/refunds/2/?a=1"}, "path"),
            ({"path": "/refunds/?a=2"}, "query"),
            ({"path": "/refunds/"}, "query"),
            ({"body": b'{"a":2}'}, "body"),
            ({"body": b"[]"}, "body"),
            ({"content_type": "application/vnd.shop+json"}, "media_type"),
        ],
    )
    def test_6_each_part_counts(self, kind: Callable[..., Any], other: dict[str, Any], part: str) -> None:
        """Another method, path, query, body or media type is another request, and is named."""
        first = {"body": b'{"a":1}', "path": "/refunds/?a=1"}
        one, two = kind(plain(**first)), kind(plain(**{**first, **other}))
        assert differs(fingerprint(one), fingerprint(two)) == [part]

    def test_all_parts_are_digests(self, kind: Callable[..., Any]) -> None:
        """A fingerprint holds five SHA-256 digests and nothing of the request."""
        parts = fingerprint(kind(plain(b'{"card":"4111"}')))
        assert tuple(parts) == PARTS
        assert all(len(value) == 64 and int(value, 16) for value in parts.values())

    @pytest.mark.parametrize(
        ("first", "second", "equal"),
        [
            ("/?a=1&b=2", "/?b=2&a=1", False),
            ("/?a=1&a=2", "/?a=2&a=1", False),
            ("/?a=A", "/?a=%41", True),
            ("/?a=%FF", "/?a=%FE", False),
            ("/?a=b%26c", "/?a=b&c", False),
            ("/?a=", "/?a", True),
            ("/?", "/", True),
        ],
    )
    def test_query(self, kind: Callable[..., Any], first: str, second: str, equal: bool) -> None:
        """The query counts as decoded pairs in the order sent."""
        assert same(kind(plain(path=first)), kind(plain(path=second))) is equal

    def test_query_of_bytes_that_were_not_escaped(self, kind: Callable[..., Any]) -> None:
        """Under WSGI they are not the characters that they look like: two queries that a view tells apart are two."""
        bare, escaped, other = (plain(path=f"/?a={value}") for value in ("", "%C3%A9", "%C3%83%C2%A9"))
        bare.environ["QUERY_STRING"] = "a=\xc3\xa9"
        assert bare.GET == escaped.GET != other.GET
        assert same(kind(bare), kind(escaped))
        assert not same(kind(bare), kind(other))

    @pytest.mark.parametrize(
        ("first", "second", "equal"),
        [
            (JSON, "application/JSON; charset=UTF-8", True),
            (JSON, "application/json; charset=utf-16", False),
            ("text/plain", "text/plain; charset=utf-8", False),
            ("application/x; boundary=1", "application/x; boundary=2", False),
            ("text/plain; b=1; a=2", "text/plain; a=2; b=1", True),
        ],
    )
    def test_media_type(self, kind: Callable[..., Any], first: str, second: str, equal: bool) -> None:
        """Case, order of parameters and the charset that holds anyway do not count; the rest does."""
        assert same(kind(plain(b"{}", first)), kind(plain(b"{}", second))) is equal

    @pytest.mark.parametrize("form", [False, True])
    def test_another_charset_counts_by_bytes(self, kind: Callable[..., Any], form: bool) -> None:
        """What is one value as UTF-8 may be two values as something else."""
        media_type = f"{FORM if form else JSON}; charset=latin-1"
        bodies = (b"a=1&b=2", b"b=2&a=1") if form else (b'"\\u00e9"', b'"\xc3\xa9"')
        assert form or drf(plain(bodies[0], media_type)).data != drf(plain(bodies[1], media_type)).data
        assert not same(*(kind(plain(body, media_type)) for body in bodies))
        assert same(*(kind(plain(bodies[0], media_type)) for _ in range(2)))


@KINDS
class TestJSON:
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (b'{"a":1,"b":[1,2]}', b'\n{ "b": [1, 2], "a": 1 }\n'),
            (b'{"a":{"x":1,"y":2}}', b'{"a":{"y":2,"x":1}}'),
            (b'"\xc3\xa9"', b'"\\u00e9"'),
        ],
    )
    def test_31_form_does_not_count(self, kind: Callable[..., Any], first: bytes, second: bytes) -> None:
        """Key order, white space and escapes do not make another request."""
        assert same(kind(plain(first)), kind(plain(second)))

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (b'{"a":1}', b'{"a":1.0}'),
            (b'{"a":9007199254740993}', b'{"a":9007199254740992}'),
            (b'{"a":0.1}', b'{"a":0.1000000000000000000001}'),
            (b'{"a":1e400}', b'{"a":1e401}'),
            (b'{"a":1}', b'{"a":"1"}'),
            (b'{"a":1}', b'{"a":true}'),
            (b'{"a":1}', b'{"a":{"n":"1"}}'),
            (b'{"a":null}', b"{}"),
            (b"[1,2]", b"[2,1]"),
            (b'{"a":1,"a":2}', b'{"a":2}'),
            (b'{"a":1,"a":2}', b'{"a":2,"a":1}'),
            (b'{"a":1,"a":2}', b'{"d":[["a",1],["a",2]]}'),
            (b'{"o":[]}', b"{}"),
            (b'{"a":', b'{"a": '),
            (b"", b"null"),
            (b'{"a":1}', b'{"a":"\\u0000\\u00011"}'),
            (b'{"a":{"b":1}}', b'{"a":{"b":1,"b":1}}'),
            (b'{"a:":1}', b'{"a\\u003a":1,"a:":1}'),
            (b'{"\\u003a":0,"\\u003a":1}', b'{":":1}'),
            (b"[" * 99, b"[" * 98),
        ],
    )
    def test_32_values_never_merge(self, kind: Callable[..., Any], first: bytes, second: bytes) -> None:
        """Numbers as written, types, order of lists and repeated names count; broken JSON counts by bytes."""
        assert not same(kind(plain(first)), kind(plain(second)))

    def test_34_fields(self, kind: Callable[..., Any]) -> None:
        """`FingerprintFields` names what counts; a body that is no object counts whole."""
        first, second = b'{"amount":1,"nonce":"x"}', b'{"amount":1,"nonce":"y"}'
        for fields in (FingerprintFields(exclude=("nonce",)), FingerprintFields(include=("amount",))):
            assert same(kind(plain(first)), kind(plain(second)), fields=fields)
            assert not same(kind(plain(first)), kind(plain(b'{"amount":2,"nonce":"x"}')), fields=fields)
            assert not same(kind(plain(b'["x"]')), kind(plain(b'["y"]')), fields=fields)
            assert not same(kind(plain(b"2")), kind(plain(b"3")), fields=fields)
        assert not same(kind(plain(first)), kind(plain(second)))

    def test_34_callable(self, kind: Callable[..., Any]) -> None:
        """A callable gets the request and says what counts; what it returns must be exact."""

        def amount(request: Any) -> Any:
            return json.loads(request.body)["amount"]

        assert same(kind(plain(b'{"amount":1,"n":1}')), kind(plain(b'{"amount":1,"n":2}')), fields=amount)
        assert not same(kind(plain(b'{"amount":1}')), kind(plain(b'{"amount":2}')), fields=amount)
        assert fingerprint(kind(plain()), lambda request: b"bytes")
        with pytest.raises(PayloadError):
            fingerprint(kind(plain()), lambda request: 1.5)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=10,
    ),
    st.integers(0, 4),
)
def test_json_spacing_never_counts(value: Any, indent: int) -> None:
    """However a library lays out the same JSON, it is one request."""
    compact = json.dumps(value).encode()
    spread = json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False).encode()
    assert same(plain(compact), plain(spread))


def test_fields_refuse_a_bare_string() -> None:
    """A string in place of a tuple would name letters."""
    with pytest.raises(TypeError, match="tuple"):
        FingerprintFields(exclude="nonce")


@KINDS
class TestForms:
    def test_pairs(self, kind: Callable[..., Any]) -> None:
        """Forms count by name; the order of one name's values counts, that of the names does not."""
        assert same(kind(plain(b"a=1&b=2", FORM)), kind(plain(b"b=2&a=1", FORM)))
        assert same(kind(plain(b"a=%41", FORM)), kind(plain(b"a=A", FORM)))
        assert not same(kind(plain(b"a=1&a=2", FORM)), kind(plain(b"a=2&a=1", FORM)))
        assert not same(kind(plain(b"a=%FF", FORM)), kind(plain(b"a=%FE", FORM)))
        assert not same(kind(plain(b"a=\xff", FORM)), kind(plain(b"a=\xfe", FORM)))
        assert not same(kind(plain(b"a=1", FORM)), kind(plain(b"a=", FORM)))
        exclude = FingerprintFields(exclude=("csrf",))
        assert same(kind(plain(b"a=1&csrf=x", FORM)), kind(plain(b"a=1&csrf=y", FORM)), fields=exclude)

    def test_33_multipart(self, kind: Callable[..., Any]) -> None:
        """A new boundary is the same request; names, values, file names and contents count."""
        first = fingerprint(kind(upload()))
        assert differs(first, fingerprint(kind(upload("another-boundary")))) == []
        for other in (upload(name="b.txt"), upload(content=b"hellp"), upload(note="m"), upload(more="x")):
            assert differs(first, fingerprint(kind(other))) == ["body"]
        assert same(
            kind(upload(content=b"1")),
            kind(upload(content=b"2")),
            fields=FingerprintFields(exclude=("file",)),
        )

    def test_33_files_are_left_for_the_handler(self, kind: Callable[..., Any]) -> None:
        """After the fingerprint, fields and files are there as if nobody had looked."""
        request = kind(upload())
        fingerprint(request)
        assert request.POST["note"] == "n"
        assert request.FILES["file"].read() == b"hello"
        if kind is drf:
            assert request.data["note"] == "n"

    @pytest.mark.parametrize("method", ["PUT", "PATCH"])
    def test_33_other_methods(self, kind: Callable[..., Any], method: str) -> None:
        """PUT and PATCH carry multipart too, and the handler can still parse it."""
        one, two = upload(), upload("another-boundary")
        three = upload(content=b"other")
        for http in (one, two, three):
            http.method = method
        first = kind(one)
        parts = fingerprint(first)
        assert differs(parts, fingerprint(kind(two))) == []
        assert differs(parts, fingerprint(kind(three))) == ["body"]
        if kind is as_is:
            form, files = first.parse_file_upload(first.META, first)
            assert form["note"] == "n"
            assert files["file"].read() == b"hello"

    def test_33_large_files_stream(self, kind: Callable[..., Any], settings: Any) -> None:
        """A file is not held in memory and does not count against the limit of the body."""
        settings.EFFECTS = {"MAX_FINGERPRINT_BYTES": 1000}
        request = kind(upload(content=b"x" * 12_000_000))
        tracemalloc.start()
        fingerprint(request)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 6_000_000
        request.FILES["file"].close()

    def test_media_type_that_the_view_does_not_take(self, kind: Callable[..., Any]) -> None:
        """DRF's own refusal of a multipart body reaches its exception handler."""
        if kind is drf:
            with pytest.raises(UnsupportedMediaType):
                fingerprint(Request(upload(), parsers=[JSONParser()]))

    def test_malformed_multipart(self, kind: Callable[..., Any]) -> None:
        """A body that is no multipart is an error, never the digest of an empty form, asked once or twice."""
        request = kind(plain(b"x" * 200, MULTIPART_CONTENT.replace("BoUnDaRyStRiNg", "é")))
        for _ in range(2):
            with pytest.raises((BodyUnreadableError, ParseError)):
                fingerprint(request)


def test_bytes_count() -> None:
    """Other media types count byte by byte."""
    assert same(plain(b"\x00\xff", "application/pdf"), plain(b"\x00\xff", "application/pdf"))
    assert not same(plain(b'{"a":1}', "text/plain"), plain(b'{"a": 1}', "text/plain"))


class TestDefinitions:
    def test_30_compared_by_the_definition_of_the_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A newer definition does not make an old row's request another one."""
        stored = fingerprint(plain(b"{}"))
        newer = {**DEFINITIONS, 2: lambda request, fields: dict.fromkeys(PARTS, "other")}
        monkeypatch.setattr("effects.http.fingerprints.DEFINITIONS", newer)
        monkeypatch.setattr("effects.http.fingerprints.VERSION", 2)
        assert compare(1, stored, plain(b"{}")) == []
        assert compare(1, stored, plain(b"[]")) == ["body"]
        assert fingerprint(plain(b"{}"))["body"] == "other"

    def test_unknown_definition(self) -> None:
        """A row of a later release is a policy change, not a difference."""
        with pytest.raises(UnknownDefinitionError) as caught:
            compare(99, {}, plain())
        assert caught.value.code == "operation_policy_changed"

    def test_definition_1_is_frozen(self) -> None:
        """Rows in databases name these digests; a change of definition 1 would refuse their retries."""
        assert VERSION in DEFINITIONS
        bodies = {
            "json": plain(b'{"b":[1.0,null],"a":{"x":1,"y":2}}', path="/o/1/?q=%41"),
            "form": plain(b"b=2&a=1&a=0", FORM),
            "multipart": upload(),
            "bytes": plain(b"raw", "text/plain; charset=UTF-8"),
        }
        frozen = {name: DEFINITIONS[1](request, None)["body"][:16] for name, request in bodies.items()}
        assert frozen == FROZEN_BODIES

    def test_parts_of_other_definitions(self) -> None:
        """A part that only one side has is a difference."""
        assert differs({"body": "1"}, {"body": "1", "extra": "2"}) == ["extra"]


FROZEN_BODIES = {
    "json": "6d7314cfda5a3fd8",
    "form": "4e4821353b5ed3b7",
    "multipart": "6425d7a24e3b76c7",
    "bytes": "1af15663854e2366",
}
