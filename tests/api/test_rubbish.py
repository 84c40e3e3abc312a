"""Whatever is sent to the API and the status resource: an answer in words, and never an error of the server's."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.api.conftest import Api
from tests.rubbish import DEEP, FEW, JSON_TEXTS, TEXTS, encoded

MANY = settings(FEW, max_examples=60)
JSON = "application/json"
keys = count()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS.filter(lambda text: len(text) < 5000),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
BROKEN = [
    b"", b" ", b"\xff", b"\xef\xbb\xbf{}", b"{", b"null", b"[]", b'"x"', b"1", b"NaN", b'{"a":1,"a":2}', b'{"a":' * 100,
    '{"a":1}'.encode("utf-16"), *(text.encode() for text in DEEP),
]  # fmt: skip


class Browser:
    """Sends bytes as one user."""

    def __init__(self, user: User) -> None:
        self.client = Client()
        self.client.force_login(user)

    def __call__(
        self, method: str, url: str, body: bytes = b"", content_type: str = JSON, query: str = "", **headers: str
    ) -> Any:
        named = {"Idempotency-Key": f"r-{next(keys)}", **headers}
        return self.client.generic(method, url, body, content_type, headers=named, QUERY_STRING=query)


def told(answer: Any) -> None:
    """Check that an answer is no error of the server's, and says in JSON what is wrong."""
    assert answer.status_code < 500, answer.content
    if answer.status_code >= 400:
        problem = json.loads(answer.content)
        assert problem["code"]
        assert problem["detail"]
        assert answer.content.isascii()


@pytest.fixture
def everybody(api: type[Api], person: Callable[..., User]) -> Browser:
    """An account that may propose, approve, see and cancel."""
    return Browser(
        person("all", "auth.add_group", "effects.approve_execution", "effects.view_execution",
               "effects.cancel_execution", "effects.view_payload")
    )  # fmt: skip


@pytest.fixture
def proposed(agent: Api) -> dict[str, Any]:
    """A proposal of somebody else's."""
    return agent.proposed()


def bodies(proposed: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return where something is posted, and what may be."""
    approval = proposed["approval"]
    vote = {"decision": "approve", "digest": approval["digest"], "revision": proposed["revision"], "comment": "c"}
    payload = {"to": "ada", "amount": 5, "items": [{"name": "a", "count": 1}], "secret": "s"}
    return {
        "propose": ("/effects/proposals/", {"operation": "api.gift", "payload": payload}),
        "vote": (f"/effects/approvals/{approval['id']}/vote/", vote),
        "withdraw": (f"/effects/proposals/{proposed['ref']}/withdraw/", {"reason": "r"}),
    }


@pytest.mark.parametrize("which", ["propose", "vote", "withdraw"])
def test_bodies_take_any_value(everybody: Browser, proposed: dict[str, Any], which: str) -> None:
    """One member is replaced, left out or added, whole or within the payload."""
    url, whole = bodies(proposed)[which]
    names = st.sampled_from([*whole, "extra", "\x00", "\ud800"])
    inner = st.sampled_from([*whole.get("payload", {}), "extra", "\ud800", "\x00"])

    @MANY
    @given(names, VALUES, st.booleans(), inner)
    @example("comment", "\ud800", False, "to")
    @example("digest", "\x00", False, "to")
    @example("operation", "\ud800", False, "to")
    @example("reason", "a\x00\udfff", False, "to")
    @example("revision", 10**40, False, "to")
    @example("revision", 1e300, False, "to")
    @example("payload", "\ud800", True, "to")
    @example("payload", "\x00", True, "to")
    @example("payload", float("inf"), True, "amount")
    @example("payload", 10**30, True, "amount")
    def holds(name: str, value: Any, within: bool, field: str) -> None:
        data = {**whole, "payload": {**whole["payload"], field: value}} if within and "payload" in whole else {
            **whole, name: value,
        }  # fmt: skip
        told(everybody("POST", url, json.dumps(data).encode()))
        told(everybody("POST", url, json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")))
        told(everybody("POST", url, json.dumps({k: v for k, v in whole.items() if k != name}).encode()))

    holds()


@pytest.mark.parametrize("which", ["propose", "vote", "withdraw"])
def test_bodies_take_any_bytes(everybody: Browser, proposed: dict[str, Any], which: str) -> None:
    """What is no JSON, no object, or nested without end."""
    url, whole = bodies(proposed)[which]
    for body in BROKEN:
        for content_type in (JSON, f"{JSON}; charset=latin-1", f"{JSON}; charset=nonsense", "text/plain", "", "a/b;c"):
            told(everybody("POST", url, body, content_type))
    for text in DEEP:
        member = "payload" if which == "propose" else next(iter(whole))
        told(everybody("POST", url, json.dumps({**whole, member: 0}).replace(": 0", f": {text}").encode()))

    @MANY
    @given(JSON_TEXTS | TEXTS)
    def holds(text: str) -> None:
        told(everybody("POST", url, text.encode("utf-8", "surrogatepass")))

    holds()


def test_queries_and_cursors_take_any_text(everybody: Browser, proposed: dict[str, Any]) -> None:
    """Pages of approvals: a cursor of somebody else's make is refused, an odd size is the usual one."""

    @MANY
    @given(st.dictionaries(st.sampled_from(["cursor", "page_size", "x"]), TEXTS | st.lists(TEXTS, max_size=2)))
    @example({"cursor": "cD0lMDA="})  # p=%00
    @example({"cursor": "cD05OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5"})
    @example({"cursor": "bz05OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5JnA9MQ=="})
    @example({"cursor": "bz0tMQ=="})
    @example({"cursor": "8J+YgA=="})
    @example({"cursor": "\xe9"})
    @example({"page_size": "9" * 5000})
    def holds(query: dict[str, Any]) -> None:
        told(everybody("GET", "/effects/approvals/", query=encoded(query)))

    holds()


def test_addresses_take_any_id(everybody: Browser, proposed: dict[str, Any]) -> None:
    """Ids that are none, or of nothing: not found."""
    places = ["/effects/proposals/{}/", "/effects/approvals/{}/vote/", "/operations/{}/"]

    @MANY
    @given(st.sampled_from(places), TEXTS.filter(lambda text: len(text) < 500))
    @example("/operations/{}/", "\x00")
    def holds(place: str, ref: str) -> None:
        address = place.format(encoded({"": ref})[1:])
        assert everybody("POST" if "vote" in place else "GET", address).status_code < 500

    holds()


def test_headers_take_any_text(everybody: Browser, proposed: dict[str, Any]) -> None:
    """Keys and validators."""
    url, whole = bodies(proposed)["propose"]

    @MANY
    @given(TEXTS.filter(lambda text: "\n" not in text and "\r" not in text and len(text) < 1000), st.booleans())
    @example("\xe9", False)
    @example("\udce9", True)
    def holds(text: str, quoted: bool) -> None:
        key = f'"{text}"' if quoted else text
        told(everybody("POST", url, json.dumps(whole).encode(), **{"Idempotency-Key": key}))
        told(everybody("GET", f"/effects/proposals/{proposed['ref']}/", **{"If-None-Match": key}))

    holds()
