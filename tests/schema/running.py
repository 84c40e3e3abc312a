"""Runs schemathesis over the demo project's schema, in this process."""

from __future__ import annotations

import base64
import functools
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from schemathesis.specs.openapi import checks
from schemathesis.transport.wsgi import WSGITransport

from tests.schema.shop import Shop

#: Headers that an answer may have only where its schema says so.
WATCHED = frozenset(
    {"retry-after", "etag", "location", "link", "www-authenticate", "idempotent-replayed", "idempotency-status"}
)
PASSWORD = "pw"
#: What schemathesis changes in Hypothesis when it is first used: other tests would not show what made them fail.
CHANGED = (
    "hypothesis.core", "hypothesis.internal.entropy", "hypothesis.internal.conjecture.engine",
    "hypothesis.strategies._internal.collections", "hypothesis.strategies._internal.core",
)  # fmt: skip


@schemathesis.check
def documented_headers(ctx: Any, response: Any, case: Any) -> None:
    """Hold that each header of interest is in the schema."""
    definition = case.operation.responses.find_by_status_code(response.status_code)
    if definition is not None:
        unknown = WATCHED & set(response.headers) - {name.lower() for name, _ in definition.headers.items()}
        assert not unknown, f"undocumented headers of {response.status_code}: {', '.join(sorted(unknown))}"


def load(shop: Shop, examples: int = 4) -> Any:
    """Return the schema that the shop serves, with the shop as the application and the customer logged in."""
    settings = {
        "seed": 1,
        "workers": 1,
        "continue-on-failure": True,
        "warnings": False,
        "cache": {"enabled": False},
        "suppress-health-check": ["all"],
        "auth": {"openapi": {"basicAuth": {"username": "customer", "password": PASSWORD}}},
        "generation": {"max-examples": examples, "deterministic": True, "database": "none", "no-shrink": True},
    }
    return schemathesis.openapi.from_wsgi("/schema/", shop, config=SchemathesisConfig.from_dict(settings))


@functools.cache
def load_once() -> Any:
    """Return the schema as the project serves it."""
    return load(Shop())


def findings(schema: Any) -> list[str]:
    """Run all phases (examples, coverage, fuzzing, stateful) with all checks, and return what they found."""
    return list(dict.fromkeys(_found(schema)))


def _found(schema: Any) -> Iterator[str]:
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError):
            yield f"{event.label}: {event.value!r}"
        elif isinstance(event, events.FatalError):
            yield repr(event.exception)
        elif isinstance(event, events.ScenarioFinished):
            for case, checks in event.recorder.checks.items():
                yield from (_told(event, case, check.failure_info) for check in checks if check.failure_info)
        elif isinstance(event, events.EngineFinished):
            yield from map(str, event.failures)


def _told(event: events.ScenarioFinished, case: str, info: Any) -> str:
    interaction = event.recorder.interactions.get(case)
    answer = interaction.response if interaction is not None else None
    shown = f"{answer.status_code} {answer.content[:300]!r}" if answer is not None else "no answer"
    failure = info.failure
    return f"{failure.operation}: {failure.title} ({event.phase.value}): {failure.message}\n{info.code_sample}\n{shown}"


def send_probes_in_process(monkeypatch: Any) -> None:
    """Let schemathesis ask without a login.

    Its probes carry settings of a socket, which its own transport to a WSGI application takes off only where a session
    is given.
    """
    send = WSGITransport.send

    def sent(self: Any, case: Any, *, session: Any = None, **options: Any) -> Any:
        if session is None:
            options = {name: value for name, value in options.items() if name not in _OF_SOCKETS}
        return send(self, case, session=session, **options)

    monkeypatch.setattr(WSGITransport, "send", sent)


_OF_SOCKETS = frozenset({"max_redirects", "verify", "cert", "proxies"})


@contextmanager
def hypothesis_put_back() -> Iterator[None]:
    """Put back at the end what schemathesis changes in Hypothesis."""
    modules = [importlib.import_module(name) for name in CHANGED]
    before = [dict(vars(module)) for module in modules]
    yield
    for module, names in zip(modules, before, strict=True):
        vars(module).update(names)
    importlib.import_module("schemathesis.generation.hypothesis").setup._is_patched = False


class Asker:
    """Sends single requests, and holds each answer against the schema: status, media type, headers, body."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema

    def __call__(
        self, method: str, path: str, body: Any = None, *, user: str = "customer", password: str = PASSWORD,
        key: str | None = None, headers: Any = None, raw: bytes | None = None, **parameters: Any,
    ) -> Any:  # fmt: skip
        """Send a request, and return the answer."""
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        sent = {"Authorization": f"Basic {login}", **({"Idempotency-Key": key} if key else {}), **(headers or {})}
        json = {"body": body, "media_type": "application/json"} if body is not None else {}
        case = self.schema[path][method].Case(path_parameters=parameters, headers=sent, **json)
        answer = case.call(**({"data": raw} if raw is not None else {}))
        case.validate_response(answer, checks=CONFORMANCE)
        return answer


CONFORMANCE = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    documented_headers,
]
