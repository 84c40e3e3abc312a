"""The OpenAPI schema of protected views, the status resource and the API, for drf-spectacular.

`EffectsConfig.ready` imports it where `drf_spectacular` is an installed app, which registers its extensions; nothing
else needs it. It reads what `@idempotent` was told and changes nothing at run time.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from drf_spectacular.extensions import (
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
    OpenApiViewExtension,
)
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import Direction, OpenApiParameter, OpenApiResponse
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import AllowAny
from rest_framework.views import APIView, exception_handler

from effects.conf import settings
from effects.http.answers import REPLAYED, STATUS
from effects.http.call_paths import protection_behind
from effects.http.keys import MAX_KEY_LENGTH, PATTERN
from effects.http.problems import CODES, CONTENT_TYPE, Code, unlisted
from effects.http.protection import Protection
from effects.http.schema_components import HEADERS, Schema, problem, proposal, refusal, status_resource
from effects.http.schema_payloads import proposable
from effects.http.status import operation_status

__all__ = ["DescribedFields", "DescribedProposals", "DescribedViews"]

EXAMPLE = '"8e03978e-40d5-43e8-bc93-6894a57f9324"'


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


class DescribedProposals(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Tell proposals apart by their operation, with the payload that each takes."""

    target_class = "effects.http.api.serializers.ProposalRequest"
    optional = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> Schema:
        """Return one schema of those of the effects; the serializer's own where none may be proposed."""
        kinds = {effect: proposal(auto_schema.registry, effect) for effect in proposable()}
        if not kinds:
            return auto_schema._map_serializer(self.target, direction, bypass_extensions=True)  # type: ignore[no-any-return, no-untyped-call]
        mapping = {name: kind["$ref"] for effect, kind in kinds.items() for name in (effect.operation, *effect.aliases)}
        return {
            # drf-spectacular takes a body without any as one that may be missing
            "required": ["operation", "payload"],
            "oneOf": list(kinds.values()),
            "discriminator": {"propertyName": "operation", "mapping": mapping},
        }


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
        """Add the key, and what our own views take in their addresses."""
        found = list(super().get_override_parameters())
        if self.documented is not None:
            found += [OpenApiParameter(name, str, description=text) for name, text in self.documented.query.items()]
            found += _ids(self.path)
        return [*found, _key(self.protection)] if self.protection else found

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
        own, kinds = set(responses), []
        if self.protection is not None:
            _add_waiting(responses, registry, self.protection)
            kinds += _problems_of(self.protection)
        if self.documented is not None:
            kinds += self.documented.problems
            said = {kind.code for kind in kinds}
            kinds += [unlisted(*refused) for refused in _refusals(self) if refused[0] not in said]
            _add_headers(responses, self.documented.headers)
        _add_problems(responses, registry, kinds)
        if self.protection is not None:
            if self.documented is None:
                own |= _add_refusals(self, responses, registry, own)
            marks = [REPLAYED] if self.protection.required else [REPLAYED, STATUS]
            _add_headers(responses, dict.fromkeys(own, marks))
        operation["responses"] = dict(sorted(responses.items()))
        return operation


def _ids(path: str) -> list[OpenApiParameter]:
    """Return the ids in an address of ours: the URL patterns let anything pass, so that a wrong one is a problem."""
    names = re.findall(r"{(\w+)}", path)
    return [OpenApiParameter(name, OpenApiTypes.UUID, OpenApiParameter.PATH) for name in names]


def _key(protection: Protection) -> OpenApiParameter:
    need = "Required" if protection.required else "Optional: without it the request is not protected"
    return OpenApiParameter(
        settings.KEY_HEADER,
        {"type": "string", "pattern": PATTERN, "maxLength": MAX_KEY_LENGTH + 2, "example": EXAMPLE},
        OpenApiParameter.HEADER,
        required=protection.required,
        description=f"{need}. 1 to 255 printable ASCII characters except the comma, between double quotes (an "
        "RFC 9651 string), new for each operation. A retry under the same key, with the same request, gets the "
        "first answer.",
    )


def _problems_of(protection: Protection) -> list[Code]:
    """Return what the decorator can answer; a body that is too large has a status of its own."""
    left_out = {"operation_not_found", *(() if protection.required else ("idempotency_key_missing",))}
    too_large = dataclasses.replace(CODES["idempotency_request_invalid"], status=413)
    return [*(kind for kind in CODES.values() if kind.code not in left_out), too_large]


def _add_waiting(responses: Schema, registry: ComponentRegistry, protection: Protection) -> None:
    if protection.operation.mode == "journaled":
        text = "It is not settled: people must decide, or the provider has it. The same request gets the answer later."
        _add(responses, 202, "application/json", status_resource(registry), text)
        _add_headers(responses, {202: ("Location", "Retry-After")})


def _add_problems(responses: Schema, registry: ComponentRegistry, kinds: Iterable[Code]) -> None:
    """Add one schema for each status: the problem, and which codes it can have there."""
    by_status: dict[int, list[Code]] = {}
    for kind in kinds:
        by_status.setdefault(kind.status, []).append(kind)
    for status, found in by_status.items():
        text = "\n".join(f"- `{kind.code}`: {kind.title}." for kind in found)
        _add(responses, status, CONTENT_TYPE, problem(registry, status, found), text)
        _add_headers(responses, {status: _headers_of(status, found)})


def _headers_of(status: int, kinds: Iterable[Code]) -> list[str]:
    found = ["Retry-After"] if status == 429 or any(kind.retry_after for kind in kinds) else []
    if any(kind.code == "idempotency_key_missing" for kind in kinds):
        found.append("Link")
    return [*found, "WWW-Authenticate"] if status == 401 else found


def _refusals(schema: AutoSchema) -> list[tuple[str, int]]:
    """Return with what REST framework itself may refuse a request of this method."""
    authenticators, takes_body = schema.view.get_authenticators(), schema.method in {"POST", "PUT", "PATCH", "DELETE"}
    # as REST framework decides between 401 and 403: the first authenticator speaks
    challenges = authenticators and _is_overridden(authenticators[0], BaseAuthentication.authenticate_header)
    return [
        *([("parse_error", 400), ("unsupported_media_type", 415)] if takes_body else ()),
        *([("not_authenticated", 401), ("authentication_failed", 401)] if challenges else ()),
        ("permission_denied", 403),
        *([("not_found", 404)] if "{" in schema.path else ()),
        ("not_acceptable", 406),
        *([("throttled", 429)] if schema.view.get_throttles() else ()),
    ]


def _is_overridden(instance: object, method: Callable[..., Any]) -> bool:
    return getattr(type(instance), method.__name__) is not method


def _add_refusals(schema: AutoSchema, responses: Schema, registry: ComponentRegistry, own: set[str]) -> set[str]:
    """Add what REST framework's exception handler makes of refusals, unless the view says so itself; return which."""
    added = set()
    known = schema.view.get_exception_handler() is exception_handler
    for code, status in _refusals(schema):
        if str(status) in own:
            continue
        added.add(str(status))
        for media_type in schema.map_renderers("media_type"):
            _add(responses, status, media_type, refusal(registry, status) if known else {}, f"- `{code}`")
        _add_headers(responses, {status: _headers_of(status, ())})
    return added


def _add(responses: Schema, status: int, media_type: str, schema: Schema, description: str) -> None:
    """Add an answer beside those that the view has of its own under the same status."""
    response = responses.setdefault(str(status), {"description": ""})
    if description not in response["description"]:
        response["description"] = "\n\n".join(filter(None, (response["description"], description)))
    content = response.setdefault("content", {})
    known = content.get(media_type, {}).get("schema")
    if known is None:
        content[media_type] = {"schema": schema}
    elif known != schema:
        # an answer may fit both
        content[media_type]["schema"] = {"anyOf": [known, schema]}


def _add_headers(responses: Schema, names: Mapping[Any, Iterable[str]]) -> None:
    for status, found in names.items():
        for name in found:
            responses[str(status)].setdefault("headers", {}).setdefault(name, dict(HEADERS[name]))


# -- the status resource ----------------------------------------------------------------------------------------------


class _StatusSchema(AutoSchema):
    def get_operation_id(self) -> str:
        return "effects_operation_status"

    def get_override_parameters(self) -> list[Any]:
        return [*super().get_override_parameters(), *_ids(self.path)]

    def get_response_serializers(self) -> Any:
        return {(200, "application/json"): OpenApiResponse(status_resource(self.registry))}

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: ComponentRegistry
    ) -> Schema | None:
        operation: Schema | None = super().get_operation(path, path_regex, path_prefix, method, registry)
        if operation is not None:
            refusals = [unlisted(code, status) for code, status in _refusals(self) if status in {401, 403}]
            kinds = [*refusals, CODES["operation_not_found"], CODES["execution_unavailable"]]
            _add_problems(operation["responses"], registry, kinds)
            _add_headers(operation["responses"], {200: ["Retry-After"]})
        return operation


class _StatusView(APIView):
    schema = _StatusSchema()
    # a login is asked for where the operation's own view asks for one: its `identity=` may know callers otherwise
    permission_classes = (AllowAny,)

    def get(self, request: Any, ref: Any) -> Any:
        """Return where an operation stands, for the tenant and subject that sent it."""
        raise NotImplementedError("operation_status answers; this stands for it in the schema")


# REST framework lists the callbacks that name a class: the status resource is a plain view, and is asked by its clients
operation_status.cls = _StatusView  # type: ignore[attr-defined]
operation_status.initkwargs = {}  # type: ignore[attr-defined]
