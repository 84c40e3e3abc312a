"""The Idempotency-Key header: rows 3, 4 and 5 of the HTTP contract."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import http_sf
import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from effects.http.keys import PATTERN, KeyInvalidError, parse_key, raw_key
from tests.http.conftest import Sender

DATA = Path(__file__).parent.parent / "data"
UUID = "8e03978e-40d5-43dd-bc93-6894a57f9324"


def vectors(*names: str) -> list[Any]:
    """The conformance vectors of the HTTP working group that are about items."""
    found = []
    for name in names:
        found += [
            pytest.param(vector, id=f"{name}: {vector['name']}")
            for vector in json.loads((DATA / f"{name}.json").read_text("utf-8"))
            if vector["header_type"] == "item"
        ]
    return found


def lines(vector: dict[str, Any]) -> str:
    # Header lines are joined as by HTTP itself (RFC 9110 §5.3); bytes reach us as latin-1, by WSGI.
    return ", ".join(vector["raw"]).encode().decode("latin-1")


@pytest.mark.parametrize("vector", vectors("sf-string", "sf-string-generated", "sf-token", "sf-item"))
def test_library_holds_against_the_vectors(vector: dict[str, Any]) -> None:
    """http-sf reads each string, token and item as the working group says, or refuses it."""
    raw = ", ".join(vector["raw"]).encode()
    if vector.get("must_fail"):
        with pytest.raises(http_sf.StructuredFieldError):
            http_sf.parse(raw, tltype="item")
    else:
        value, parameters = http_sf.parse(raw, tltype="item")  # type: ignore[misc]
        expected = vector["expected"][0]
        assert str(value) == str(expected["value"] if isinstance(expected, dict) else expected)
        assert parameters == {}


@pytest.mark.parametrize("vector", vectors("sf-string", "sf-string-generated", "sf-token", "sf-item"))
def test_vectors(vector: dict[str, Any]) -> None:
    """A key is what RFC 9651 reads, unless it is blank, longer than 255 characters, or holds a comma."""
    expected = None if vector.get("must_fail") or "," in lines(vector) else vector["expected"][0]
    expected = expected["value"] if isinstance(expected, dict) else expected
    if expected is None or not str(expected).strip() or len(str(expected)) > 255:
        with pytest.raises(KeyInvalidError):
            parse_key(lines(vector))
    else:
        # Among the items is a bare number; as a key it is text.
        assert parse_key(lines(vector)) == str(expected)


def test_missing() -> None:
    """No header is no key, and no error."""
    assert parse_key(None) is None


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ("K", "K"),
        ('"K"', "K"),
        (UUID, UUID),
        (f'"{UUID}"', UUID),
        ("  K  ", "K"),
        ("K;a=1;b", "K"),
        ('"K"; a="x; y"; b=?0', "K"),
        ("17", "17"),
        ("-17", "-17"),
        ("order:17/2", "order:17/2"),
        ("_-~base64url", "_-~base64url"),
        (r'"a\"b\\c"', r"a\"b\c".replace('\\"', '"')),
        ('" K"', " K"),
        ("x" * 255, "x" * 255),
        (f'"{"x" * 255}"', "x" * 255),
        (f'"{"x" * 254}";p={"y" * 500}', "x" * 254),
        ("it's", "it's"),
    ],
)
def test_accepted(raw: str, key: str) -> None:
    """Quoted and bare are one key; parameters and spaces around it do not count."""
    assert parse_key(raw) == key


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ('""', "empty"),
        ('"   "', "empty"),
        ("x" * 256, "255"),
        (f'"{"x" * 256}"', "255"),
        ("é", "ASCII"),
        ('"é"', "ASCII"),
        ("a\x00b", "ASCII"),
        ("a\tb", "ASCII"),
        ("a\r\nb", "ASCII"),
        ("a\x7f", "ASCII"),
        ("a, b", "list"),
        ("a,a", "list"),
        ('"a", "b"', "list"),
        (f"{UUID}, {UUID}", "list"),
        (",", "list"),
        ('"a,b"', "comma"),
        ('"a, b"', "comma"),
        ('"a";p="x,y"', "comma"),
        ('"a";p="x, y";q', "comma"),
        ("a,", "comma"),
        ('"a', "quoting"),
        ('a"', "quoting"),
        ('"a"b', "quoting"),
        ('"a\\b"', "quoting"),
        ("'a'", "quoting"),
        ("a b", "structured field"),
        ("a=", "structured field"),
        ("K;", "structured field"),
        ("K;A=1", "structured field"),
        ("K ;a=1", "structured field"),
        ("K;a=@99999999999999", "structured field"),
        (":YWJj:", "structured field"),
        ("?1", "structured field"),
        ("@1659578233", "structured field"),
        ("(a)", "structured field"),
        ('%"a"', "quoting"),
    ],
)
def test_refused(raw: str, says: str) -> None:
    """Whatever two readers could take for two keys is refused, with a reason that repeats nothing of it."""
    with pytest.raises(KeyInvalidError, match=says) as caught:
        parse_key(raw)
    assert caught.value.code == "idempotency_key_invalid"
    assert not caught.value.effect_may_have_happened


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters=","), min_size=1, max_size=255))
def test_every_string_survives_quoting(key: str) -> None:
    """What a structured-field library writes, we read back, blank keys excepted."""
    raw = http_sf.ser(key)
    if key.strip(" "):
        assert parse_key(raw) == key
    else:
        with pytest.raises(KeyInvalidError):
            parse_key(raw)


@given(st.text())
def test_never_another_error(raw: str) -> None:
    """Any text is a key or a KeyInvalidError."""
    try:
        key = parse_key(raw)
    except KeyInvalidError:
        return
    assert key
    assert len(key) <= 255
    assert key.isascii()
    assert key.isprintable()


@pytest.mark.parametrize(
    "raw",
    [
        *('"a b"', '"a\\"b"', '"a\\\\b"', '"' + "x" * 255 + '"', "bare:k/1", "8e03978e-40d5", "*", "x" * 255),
        *('""', '"  "', '"a,b"', "a,b", "", "'a'", '"a', 'a"', '"a\\b"', '"\x7f"', '"é"', "a b", "x" * 256, '"a""b"'),
    ],
)
def test_the_schemas_pattern_is_what_is_taken(raw: str) -> None:
    """Whatever has no parameters fits the pattern that clients are told if, and only if, it is a key."""
    try:
        taken = parse_key(raw) is not None
    except KeyInvalidError:
        taken = False
    assert bool(re.search(PATTERN, raw)) is taken


@pytest.mark.parametrize("name", ["Idempotency-Key", "X-Idempotency-Key", "Request-Token-2"])
def test_the_header_is_the_one_of_the_setting(settings: Any, name: str) -> None:
    """`KEY_HEADER` names it, whatever case it is sent in; the others are none."""
    settings.EFFECTS = {} if name == "Idempotency-Key" else {"KEY_HEADER": name}
    others = {other: "other" for other in ("Idempotency-Key", "X-Idempotency-Key") if other != name}
    request = RequestFactory().post("/", headers={name.upper(): '"K"', **others})
    assert parse_key(raw_key(request.META)) == "K"
    assert raw_key(RequestFactory().post("/", headers=others).META) is None


@pytest.mark.django_db(transaction=True)
def test_a_view_under_another_header(send: Sender, settings: Any) -> None:
    """It protects, and the problem of a missing key names it; the usual header is nothing there."""
    settings.EFFECTS = {"KEY_HEADER": "X-Idempotency-Key"}
    missing = send("/transactional/api/", "k", do="nothing")
    assert (missing.status_code, "X-Idempotency-Key" in json.loads(missing.content)["detail"]) == (400, True)
    first, again = (send("/transactional/api/", None, do="nothing", headers={"X-Idempotency-Key": "k"}) for _ in "12")
    assert (first.content, again["Idempotent-Replayed"]) == (again.content, "true")
