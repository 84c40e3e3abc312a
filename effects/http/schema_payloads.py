"""The schema of a proposal: for each effect that may be proposed, its operation and the fields of its payload.

A field is described by its type hint, as `hydration` reads it. What the hint cannot say stands in the field's metadata:
`field(metadata={"schema": {"minimum": 1}})`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Union
from uuid import UUID

from drf_spectacular.settings import spectacular_settings

from effects.declarations.effect import Effect, registered
from effects.vocabulary.hydration import bare_hint, hints_of
from effects.vocabulary.scalars import Scalar, written

__all__ = ["payload_schema", "proposable"]

Schema = dict[str, Any]

_PLAIN: Mapping[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    Decimal: {"type": "string", "pattern": r"^-?[0-9]{1,18}(\.[0-9]{1,18})?$"},
    UUID: {"type": "string", "format": "uuid"},
    date: {"type": "string", "format": "date"},
    datetime: {"type": "string", "format": "date-time"},
}


def proposable() -> list[Effect[Any]]:
    """Return the effects that may be proposed, by their operations."""
    found = (effect for effect in registered() if effect.proposable_by)
    return sorted(found, key=lambda effect: effect.operation)


def payload_schema(effect: Effect[Any]) -> Schema:
    """Return the schema of an effect's payload."""
    return _of(effect.payload_type, ())


def _of(hint: Any, within: tuple[Any, ...]) -> Schema:
    """Return the schema of a type; what it does not say is left open, as is a class within itself."""
    hint = bare_hint(hint)
    origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in _PLAIN:
        return dict(_PLAIN[origin])
    if origin in (Union, types.UnionType):
        return _of_union(arguments, within)
    if origin in (None, type(None)):
        return _or_null({"enum": [None]})
    if origin is Literal:
        return {"enum": [_json(choice) for choice in arguments]}
    if origin in (list, tuple, Sequence):
        # items of one type; a tuple of several types is left open
        items = {item for item in arguments if item is not ...}
        return {"type": "array", "items": _of(items.pop(), within) if len(items) == 1 else {}}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _of(arguments[1], within) if arguments else True}
    if isinstance(origin, type) and issubclass(origin, Enum):
        return {"enum": [_json(member) for member in origin]}
    if dataclasses.is_dataclass(origin) and origin not in within:
        return _of_fields(origin, (*within, origin))
    return {}


def _of_union(members: Sequence[Any], within: tuple[Any, ...]) -> Schema:
    shown = [_of(member, within) for member in members if member is not type(None)]
    found = shown[0] if len(shown) == 1 else {"anyOf": shown}
    return _or_null(found) if type(None) in members else found


def _or_null(schema: Schema) -> Schema:
    if spectacular_settings.OAS_VERSION.startswith("3.0"):
        return {**schema, "nullable": True}
    return {"anyOf": [schema, {"type": "null"}]}


def _of_fields(cls: Any, within: tuple[Any, ...]) -> Schema:
    fields = [field for field in dataclasses.fields(cls) if field.init]
    hints = hints_of(cls)
    missing = dataclasses.MISSING
    required = [field.name for field in fields if field.default is missing and field.default_factory is missing]
    return {
        "type": "object",
        "properties": {field.name: {**_of(hints[field.name], within), **_told(field)} for field in fields},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _told(field: dataclasses.Field[Any]) -> Schema:
    return dict(field.metadata.get("schema", {}))


def _json(choice: Any) -> Any:
    value = choice.value if isinstance(choice, Enum) else choice
    return written(value) if isinstance(value, Scalar) else value
