"""The components of our OpenAPI schema: problems, refusals of REST framework, the status resource, headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent

from effects.declarations.effect import Effect
from effects.http.answers import REPLAYED, STATUS
from effects.http.problems import CODES, Code
from effects.http.schema_payloads import payload_schema
from effects.vocabulary.states import ExecutionState, RequestState

__all__ = ["HEADERS", "Schema", "problem", "proposal", "refusal", "status_resource"]

Schema = dict[str, Any]

#: Codes of the status resource that are no problems.
STATUS_CODES = (
    "operation_pending",
    "operation_awaiting_approval",
    "operation_accepted",
    "operation_answered",
    "operation_released",
)
#: The headers of answers that the library sets, and of REST framework's refusals.
HEADERS: Mapping[str, Schema] = {
    name: {"description": text, "schema": schema}
    for name, text, schema in (
        ("Retry-After", "Seconds until asking again makes sense.", {"type": "integer", "minimum": 1}),
        ("Location", "Where to ask.", {"type": "string", "format": "uri-reference"}),
        ("ETag", "Of these contents; for If-None-Match.", {"type": "string"}),
        ("Link", "The guide to idempotency keys.", {"type": "string"}),
        ("WWW-Authenticate", "How to log in.", {"type": "string"}),
        (REPLAYED, "It is the answer to an earlier request under the same key.", {"type": "string", "enum": ["true"]}),
        (STATUS, "The request had no key and was not protected.", {"type": "string", "enum": ["ignored"]}),
    )
}


def _component(registry: ComponentRegistry, name: str, schema: Schema) -> Schema:
    component: ResolvedComponent = ResolvedComponent(  # type: ignore[no-untyped-call]
        name=name, type=ResolvedComponent.SCHEMA, schema=schema, object=name
    )
    registry.register_on_missing(component)
    return component.ref


def _words(registry: ComponentRegistry, name: str, words: Iterable[object]) -> Schema:
    # a component of its own: drf-spectacular would name an enum within a property after that, as others may be
    return _component(registry, name, {"type": "string", "enum": sorted({str(word) for word in words})})


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _state(registry: ComponentRegistry) -> Schema:
    return _words(registry, "EffectsOperationState", [*ExecutionState, *RequestState])


def problem(registry: ComponentRegistry, status: int, kinds: Sequence[Code]) -> Schema:
    """Return the schema of the problems of RFC 9457 under one status."""
    component = _component(registry, "EffectsProblem", _members(registry))
    # a project's own authenticators, permissions and throttles refuse with codes that nobody knows here
    if status in {401, 403, 429}:
        return component
    codes = {"type": "object", "properties": {"code": {"enum": sorted(kind.code for kind in kinds)}}}
    return {"allOf": [component, codes]}


def refusal(registry: ComponentRegistry, status: int) -> Schema:
    """Return the schema of what REST framework's own exception handler answers."""
    if status == 400:
        text = "What is wrong, by the names of fields; or `detail`."
        either = [{"type": "object"}, {"type": "array", "items": {}}]
        return _component(registry, "EffectsInvalid", {"description": text, "anyOf": either})
    detail = {"type": "object", "required": ["detail"], "properties": {"detail": {"type": "string"}}}
    return _component(registry, "EffectsRefusal", detail)


def proposal(registry: ComponentRegistry, effect: Effect[Any]) -> Schema:
    """Return the reference of the component of what proposes an effect."""
    name = "EffectsPropose" + "".join(word.capitalize() for word in re.split(r"[\W_]+", effect.operation))
    properties = {
        "operation": _words(registry, f"{name}Operation", [effect.operation, *effect.aliases]),
        "payload": payload_schema(effect),
    }
    schema = {"type": "object", "required": list(properties), "properties": properties}
    return _component(registry, name, schema)


def _members(registry: ComponentRegistry) -> Schema:
    properties: Mapping[str, Schema] = {
        "type": _text("The address of the problem's documentation.", format="uri"),
        "title": _text("What kind of problem it is."),
        "status": {"type": "integer"},
        "detail": _text("What it means here."),
        "code": _text("Its stable name; each answer says which it can have."),
        "safe_new_key": {
            "type": "boolean",
            "description": "True only when nothing was applied and nothing can be any more under this key.",
        },
        "operation_ref": _text("The request's public id, where it may be told.", format="uuid"),
        "operation_state": _state(registry),
        "status_url": _text("Where to ask what became of it.", format="uri-reference"),
        "differs": {"type": "array", "items": {"type": "string"}, "description": "Parts that differ, of a reused key."},
        "errors": {
            "type": "array",
            "description": "What is wrong with single fields.",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {"pointer": _text("A JSON pointer into the body."), "detail": {"type": "string"}},
            },
        },
    }
    required = ["type", "title", "status", "detail", "code", "safe_new_key"]
    return {"type": "object", "required": required, "properties": dict(properties)}


def status_resource(registry: ComponentRegistry) -> Schema:
    """Return the reference of the component of the status resource."""
    properties: Mapping[str, Schema] = {
        "operation_ref": _text("The request's public id.", format="uuid"),
        "operation": _text("What is protected."),
        "operation_state": _state(registry),
        "code": _words(registry, "EffectsStatusCode", ["", *STATUS_CODES, *CODES]),
        "safe_new_key": {"type": "boolean"},
        "answer_status": {"type": "integer", "description": "The status of the stored answer."},
        "status_url": _text("Where to ask again.", format="uri-reference"),
        "poll_after_seconds": {"type": "integer", "description": "When to ask again."},
    }
    required = ["operation_ref", "operation", "operation_state", "code", "safe_new_key"]
    return _component(
        registry, "EffectsOperationStatus", {"type": "object", "required": required, "properties": dict(properties)}
    )
