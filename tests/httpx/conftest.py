"""An effect that calls an HTTP API, its context and permit, and the APIs that it is sent to."""

import re
import ssl
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, ClassVar
from uuid import uuid4

import pytest

import effects
from effects.contrib.httpx import ApiRequest, CallApi
from effects.models.base import new_id
from effects.vocabulary.failures import SendError
from effects.vocabulary.types import Context, Permit, monotonic
from tests.stripe.scripted import Scripted, serve


class Transfer(CallApi[dict[str, Any]]):
    """A transfer as a project would declare it."""

    operation = "test.transfer"
    provider = "bank/test"
    request_timeout = timedelta(seconds=5)
    lookup = effects.Eventual()
    reference_field = "id"
    allow_http = True
    url: ClassVar[str] = ""

    def request(self, context: Any) -> ApiRequest:
        return ApiRequest(
            "POST", f"{self.url}/transfers", headers={"Authorization": "Bearer s3cret"}, json=context.payload
        )

    def look_up_request(self, context: Any) -> ApiRequest:
        return ApiRequest("GET", f"{self.url}/transfers", params={"key": context.provider_key})

    def verdict(self, context: Any, answer: Any) -> effects.vocabulary.verdicts.Verdict:
        found = answer.json()["data"]
        if not found:
            return effects.Absent()
        return effects.Found(found[0]["id"], output=found[0])


@pytest.fixture
def api() -> Iterator[Scripted]:
    """An API that answers what the test says."""
    with serve() as script:
        yield script


@pytest.fixture
def transfer(api: Scripted) -> Transfer:
    """The effect, sent to the scripted API."""
    return declared(url=api.url)


def declared(**attributes: Any) -> Transfer:
    """Return an effect like `Transfer` with other attributes."""
    return type("Transfer", (Transfer,), attributes)()


def asking(url: str, asked: Any = None, **attributes: Any) -> Transfer:
    """Return an effect that asks what the test says: a request, or a function of the context."""
    request = asked if callable(asked) else lambda context: asked
    return declared(url=url, request=lambda self, context: request(context), **attributes)


def fails(effect: Transfer, allowed: Any) -> SendError:
    """Send, and return the failure."""
    with pytest.raises(SendError) as caught:
        effect.send(context_for(allowed), allowed)
    return caught.value


@pytest.fixture
def permit() -> Callable[..., Permit]:
    """Make a permit that lasts some seconds, under a key of its own."""

    def make(seconds: float = 5.0) -> Permit:
        return Permit(new_id(), 1, 1, f"fx_{uuid4().hex}", monotonic() + seconds)

    return make


def context_for(permit: Permit, payload: Any = None) -> Context[Any]:
    """Return what an effect is told of an execution with this permit."""
    return Context(
        ref=str(new_id()), operation="test.transfer", payload={"amount": 400} if payload is None else payload,
        tenant="", key="k", provider_key=permit.provider_key, requested_by=None, on_behalf_of=None, attempt=1,
        reference="", about=None,
    )  # fmt: skip


def trusting(authority: Any) -> ssl.SSLContext:
    """Return TLS settings that know one authority."""
    return ssl.create_default_context(cafile=authority)


def told(value: object) -> str:
    """Return a parameter as the id of its test: without addresses, which differ from worker to worker."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
