"""The OpenAPI schema of protected views, the status resource and the API, for drf-spectacular.

`EffectsConfig.ready` imports it where `drf_spectacular` is an installed app, which registers its extensions; nothing
else needs it. It reads what `@idempotent` was told and changes nothing at run time.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension, OpenApiViewExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent
from drf_spectacular.utils import Direction, OpenApiParameter, OpenApiResponse
from rest_framework.views import APIView

from effects.http.call_paths import protection_behind
from effects.http.problems import CODES, CONTENT_TYPE, Code
from effects.http.protection import Protection
from effects.http.status import operation_status
from effects.states import ExecutionState, RequestState

__all__ = ["DescribedFields", "DescribedViews"]

Schema = dict[str, Any]

#: Codes of the status resource that are no problems.
STATUS_CODES = (
    "operation_pending",
    "operation_awaiting_approval",
    "operation_accepted",
    "operation_answered",
    "operation_released",
)
RETRY_AFTER: Schema = {"description": "Seconds until asking again makes sense.", "schema": {"type": "integer"}}
LOCATION: Schema = {"description": "Where to ask.", "schema": {"type": "string", "format": "uri-reference"}}


class DescribedViews(OpenApiViewExtension):  # type: ignore[no-untyped-call]
    """Describe the protected methods of a view, and the views of our API; all others stay as they are.

    A project's own extension of a view goes before it.
    """

    target_class = "rest_framework.views.APIView"
    match_subclasses = True
    priority = -1

    def view_replacement(self) -> type[APIView]:
        """Return the view with the schemas of its protected methods."""
        return _described(self.target)


class DescribedFields(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """Name the vocabularies of our API, so that no enum of the project is confused with one of them."""

    target_class = "effects.http.api.serializers.WordField"
    optional = True

    def get_name(self) -> str:
        """Return the component's name."""
        return f"Effects{self.target.words.__name__}"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Direction) -> Schema:  # noqa: ARG002
        """Return the words."""
        return {"type": "string", "enum": [str(word) for word in self.target.words]}


@functools.cache
def _described(view: type[APIView]) -> type[APIView]:
    """Return a subclass whose methods carry our schema class, as `@extend_schema` would put it there.

    Cached: drf-spectacular tells views apart by their class.
    """
    documented = getattr(view, "documented", {})
    methods = {
        name: _method(view, name, protection, documented.get(name))
        for name in dir(view)
        if ((protection := protection_behind(view, name)) or name in documented) and _schema_of(view, name)
    }
    if not methods:
        return view
    body = {**methods, "__doc__": view.__doc__, "__module__": view.__module__}
    return types.new_class(view.__name__, (view,), {}, lambda namespace: namespace.update(body))


def _schema_of(view: type[APIView], name: str) -> type[AutoSchema] | None:
    """Return the schema class of one method; None where it is not one of drf-spectacular."""
    own = getattr(getattr(view, name), "kwargs", {}).get("schema") or view.schema
    schema = own if inspect.isclass(own) else type(own)
    return schema if issubclass(schema, AutoSchema) else None


def _method(view: type[APIView], name: str, protection: Protection | None, documented: Any) -> Callable[..., Any]:
    original = getattr(view, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs)

    described = {"protection": protection, "documented": documented}
    schema = types.new_class(
        "DescribedSchema", (_Described, _schema_of(view, name)), {}, lambda namespace: namespace.update(described)
    )
    method.kwargs = {**getattr(original, "kwargs", {}), "schema": schema}  # type: ignore[attr-defined]
    return method


class _Described(AutoSchema):
    """Adds to a method's schema what `@idempotent` does, and what our own views document of themselves."""

    protection: Protection | None = None
    documented: Any = None

    def get_override_parameters(self) -> list[Any]:
        """Add the request's header, and those of answers."""
        found = list(super().get_override_parameters())
        if self.documented is not None:
            found += [OpenApiParameter(name, str, description=text) for name, text in self.documented.query.items()]
        return [*found, *_parameters(self.protection)] if self.protection else found

    def get_request_serializer(self) -> Any:
        """Return what our own views take."""
        return super().get_request_serializer() if self.documented is None else self.documented.request

    def get_response_serializers(self) -> Any:
        """Return what our own views answer."""
        return super().get_response_serializers() if self.documented is None else dict(self.documented.responses)

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: ComponentRegistry
    ) -> Schema | None:
        """Add the answers that are not the view's own."""
        operation: Schema | None = super().get_operation(path, path_regex, path_prefix, method, registry)
        if operation is None:
            return None
        responses = operation["responses"]
        if self.protection is not None:
            _add_protection(responses, registry, self.protection)
        if self.documented is not None:
            _add_problems(responses, _api_problem(registry), self.documented.problems)
        operation["responses"] = dict(sorted(responses.items()))
        return operation


def _parameters(protection: Protection) -> list[OpenApiParameter]:
    need = "Required" if protection.required else "Optional: without it the request is not protected"
    found = [
        OpenApiParameter(
            "Idempotency-Key",
            str,
            OpenApiParameter.HEADER,
            required=protection.required,
            description=f"{need}. 1 to 255 printable ASCII characters except the comma, between double quotes (an "
            "RFC 9651 string), new for each operation. A retry under the same key, with the same request, gets the "
            "first answer.",
        ),
        OpenApiParameter(
            "Idempotent-Replayed",
            {"type": "string", "enum": ["true"]},
            OpenApiParameter.HEADER,
            response=True,
            description="The answer is that of an earlier request under the same key.",
        ),
    ]
    if not protection.required:
        text = "The request had no key and was not protected."
        ignored = {"type": "string", "enum": ["ignored"]}
        found.append(
            OpenApiParameter("Idempotency-Status", ignored, OpenApiParameter.HEADER, response=True, description=text)
        )
    return found


def _add_protection(responses: Schema, registry: ComponentRegistry, protection: Protection) -> None:
    _add_problems(responses, _problem(registry), [kind for kind in CODES.values() if _can_meet(protection, kind)])
    too_large = CODES["idempotency_request_invalid"]
    _add(responses, "413", CONTENT_TYPE, _problem(registry), f"`{too_large.code}`: {too_large.title}.")
    if protection.operation.mode == "journaled":
        text = "It is not settled: people must decide, or the provider has it. The same request gets the answer later."
        _add(responses, "202", "application/json", _status(registry), text)
        responses["202"].setdefault("headers", {}).update({"Location": LOCATION, "Retry-After": RETRY_AFTER})


def _can_meet(protection: Protection, kind: Code) -> bool:
    return protection.required or kind.code != "idempotency_key_missing"


def _add_problems(responses: Schema, problem: Schema, kinds: Iterable[Code]) -> None:
    by_status: dict[int, list[Code]] = {}
    for kind in kinds:
        by_status.setdefault(kind.status, []).append(kind)
    for status, found in by_status.items():
        text = "\n".join(f"- `{kind.code}`: {kind.title}." for kind in found)
        _add(responses, str(status), CONTENT_TYPE, problem, text)
        if any(kind.retry_after for kind in found):
            responses[str(status)].setdefault("headers", {})["Retry-After"] = RETRY_AFTER


def _add(responses: Schema, status: str, media_type: str, schema: Schema, description: str) -> None:
    """Add an answer beside those that the view has of its own under the same status."""
    response = responses.setdefault(status, {"description": ""})
    response["description"] = "\n\n".join(filter(None, (response["description"], description)))
    content = response.setdefault("content", {})
    known = content.get(media_type, {}).get("schema")
    if known is None:
        content[media_type] = {"schema": schema}
    elif known != schema:
        content[media_type]["schema"] = {"oneOf": [known, schema]}


# -- components -------------------------------------------------------------------------------------------------------


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


def _problem(registry: ComponentRegistry) -> Schema:
    """Return the reference of the component of RFC 9457 problems of protected views."""
    codes = _words(registry, "EffectsProblemCode", CODES)
    return _component(registry, "EffectsProblem", _problem_schema(registry, codes))


def _api_problem(registry: ComponentRegistry) -> Schema:
    """Return the reference of the component of our own views' problems, which are REST framework's as well."""
    code = _text("The problem's stable name; the descriptions of answers list those that they can have.")
    return _component(registry, "EffectsApiProblem", _problem_schema(registry, code))


def _problem_schema(registry: ComponentRegistry, codes: Schema) -> Schema:
    properties: Mapping[str, Schema] = {
        "type": _text("The address of the problem's documentation.", format="uri"),
        "title": _text("What kind of problem it is."),
        "status": {"type": "integer"},
        "detail": _text("What it means here."),
        "code": codes,
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


def _status(registry: ComponentRegistry) -> Schema:
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


# -- the status resource ----------------------------------------------------------------------------------------------


class _StatusSchema(AutoSchema):
    def get_operation_id(self) -> str:
        return "effects_operation_status"

    def get_response_serializers(self) -> Any:
        nobody = OpenApiResponse(description="There is no such operation, or it is another caller's.")
        return {(200, "application/json"): OpenApiResponse(_status(self.registry)), 404: nobody}

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: ComponentRegistry
    ) -> Schema | None:
        operation: Schema | None = super().get_operation(path, path_regex, path_prefix, method, registry)
        if operation is not None:
            operation["responses"]["200"]["headers"] = {"Retry-After": RETRY_AFTER}
        return operation


class _StatusView(APIView):
    schema = _StatusSchema()

    def get(self, request: Any, ref: Any) -> Any:
        """Return where an operation stands, for the tenant and subject that sent it."""
        raise NotImplementedError("operation_status answers; this stands for it in the schema")


# REST framework lists the callbacks that name a class: the status resource is a plain view, and is asked by its clients
operation_status.cls = _StatusView  # type: ignore[attr-defined]
operation_status.initkwargs = {}  # type: ignore[attr-defined]
