"""What a provider returned, as data: an SDK's object becomes the mapping that it stands for.

An outcome is a fact, so that recording it must not fail on what came with it: what is no data is recorded as text, and
logged by type and place.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from effects.journal.logs import get_logger
from effects.vocabulary import canonical
from effects.vocabulary.cleaning import ELLIPSIS, clean_text, free_name
from effects.vocabulary.foreign import is_interrupt
from effects.vocabulary.scalars import is_beyond_digits, written
from effects.vocabulary.secrets import RESERVED, Secret

__all__ = ["as_data", "dump_output", "plain"]

log = get_logger("effects.outputs")

#: By which methods objects say what they stand for: pydantic, most SDKs, named tuples.
METHODS = ("model_dump", "to_dict", "_asdict")
#: Deeper and longer than any answer that is meant to be kept; an endless one ends here.
MAX_DEPTH, MAX_VALUES = canonical.MAX_DEPTH, 100_000
#: What a secret leaves, and is read back as one that is gone.
_SECRET = {RESERVED: ""}
#: Sequences of numbers to Python, a file to everybody else.
_BYTES = (bytes, bytearray, memoryview)
#: Python writes no longer integers as text unless it is told to.
_MOST_BITS = 4096
#: Of what is no data, as many are named.
_NAMED = 10


def plain(output: object, operation: str, ref: object) -> Any:
    """Return an output as data, and log what of it is none; before the transaction that records it, and never raises.

    What ends the process is left to the recording of the outcome, which holds it back until that is committed.
    """
    try:
        data, others = as_data(output)
    except BaseException as error:
        if not is_interrupt(error):
            raise
        return output
    _log(others, operation, ref)
    return data


def as_data(output: object) -> tuple[Any, dict[str, str]]:
    """Return an output in JSON's types, and which values were none: place → type.

    Text, numbers, True, False and None stay what they are. Mappings, dataclasses, attrs classes and objects with a
    `model_dump`, `to_dict` or `_asdict` become objects; sequences and sets become lists, a set in a fixed order; an
    Enum becomes its value; a Decimal, UUID, date or aware datetime becomes text that `Effect.output_type` reads back;
    a Secret is masked. All else becomes text, cleaned. What is data already is returned as it is, but for its identity.
    """
    walk = _Walk()
    return walk.read(output, "$", ()), walk.others


def dump_output(data: object) -> str:
    """Return data as canonical text; like a payload's, with floats and with integers of any size."""
    return canonical.whole(json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False))


def _log(others: Mapping[str, str], operation: str, ref: object) -> None:
    if others:
        named = ", ".join(f"{path} ({kind})" for path, kind in list(others.items())[:_NAMED])
        log.warning("%s %s: %d values of its output are no data, and are kept as text: %s", operation, ref,
                    len(others), named)  # fmt: skip


class _Walk:
    """One walk over what a provider returned."""

    def __init__(self) -> None:
        self.others: dict[str, str] = {}
        self._left = MAX_VALUES

    def read(self, value: Any, path: str, above: tuple[int, ...]) -> Any:
        self._left -= 1
        if id(value) in above or len(above) >= MAX_DEPTH or self._left < 0:
            self.others[path] = type(value).__name__
            return ELLIPSIS
        try:
            return self._read(value, path, above)
        except Exception as error:
            if is_interrupt(error):
                raise
            # a property, a method or a comparison of foreign code
            return self._other(value, path)

    def _read(self, value: Any, path: str, above: tuple[int, ...]) -> Any:
        if isinstance(value, Enum):
            return self.read(value.value, path, (*above, id(value)))
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, Secret) or (isinstance(value, dict) and value == _SECRET):
            return dict(_SECRET)
        if isinstance(value, (int, float, Decimal, UUID, date)):
            return self._scalar(value, path)
        members = _members(value)
        if members is not None:
            return self._object(members, path, (*above, id(value)))
        if isinstance(value, AbstractSet):
            value = sorted(value, key=lambda item: (type(item).__name__, repr(item)))
        if isinstance(value, Sequence) and not isinstance(value, _BYTES):
            return self._array(value, path, (*above, id(value)))
        return self._other(value, path)

    def _scalar(self, value: Any, path: str) -> Any:
        if isinstance(value, int) and value.bit_length() <= _MOST_BITS:
            return int(value)
        if isinstance(value, float) and math.isfinite(value):
            return float(value)
        if isinstance(value, Decimal) and value.is_finite() and not is_beyond_digits(value):
            return written(value)
        if isinstance(value, UUID) or (isinstance(value, date) and not isinstance(value, datetime)):
            return written(value)
        if isinstance(value, datetime) and value.utcoffset() is not None:
            return written(value)
        return self._other(value, path)

    def _object(self, members: Iterable[tuple[Any, Any]], path: str, above: tuple[int, ...]) -> Any:
        result: dict[str, Any] = {}
        alike: dict[str, int] = {}
        for key, item in members:
            if self._left < 0:
                self.others[path] = "more than can be kept"
                break
            name = str.__str__(key) if isinstance(key, str) and not isinstance(key, Enum) else self._name(key, path)
            free = free_name(f"{name}_" if name == RESERVED else name, result, alike)
            if free != name:
                self.others[f"{path}.{name}"] = "a name that is taken"
            result[free] = self.read(item, f"{path}.{free}", above)
        return result

    def _name(self, key: Any, path: str) -> str:
        if isinstance(key, Enum) and isinstance(key.value, str):
            return str.__str__(key.value)
        name = clean_text(key, 255)
        self.others[f"{path}.{name}"] = f"a name of the type {type(key).__name__}"
        return name

    def _array(self, items: Iterable[Any], path: str, above: tuple[int, ...]) -> Any:
        result: list[Any] = []
        for index, item in enumerate(items):
            if self._left < 0:
                self.others[path] = "more than can be kept"
                break
            result.append(self.read(item, f"{path}[{index}]", above))
        return result

    def _other(self, value: Any, path: str) -> str:
        self.others[path] = type(value).__name__
        if isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            return f"<an integer of {value.bit_length()} bits>"
        return clean_text(value)


def _members(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """Return the names and values of an object that stands for data; None where it stands for none."""
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init]
    if isinstance(value, Mapping):
        return value.items()
    for name in METHODS:
        # of the class: an object that answers to every name stands for nothing
        if callable(getattr(type(value), name, None)):
            found = getattr(value, name)()
            if isinstance(found, Mapping):
                return found.items()
    declared = getattr(type(value), "__attrs_attrs__", None)
    return [(each.name, getattr(value, each.name)) for each in declared] if isinstance(declared, tuple) else None
