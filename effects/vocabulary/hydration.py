"""Build a payload's dataclass from loaded JSON by its type hints. `canonical` re-exports `hydrate`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, Literal, NoReturn, TypeVar, Union, cast
from uuid import UUID

from effects.vocabulary.exceptions import PayloadError
from effects.vocabulary.scalars import MAX_DECIMAL_EXPONENT, is_beyond_digits, read_instant, written
from effects.vocabulary.secrets import Secret

__all__ = ["bare_hint", "hints_of", "hydrate", "is_filled_from_json", "is_read_from_text"]

T = TypeVar("T")


def hydrate(cls: type[T], data: object) -> T:
    """Build an instance from data that was dumped from one.

    Understands nested dataclasses, None, str, int, bool, Decimal, UUID, date, datetime, Enum, Literal, unions
    (the first member that fits), list, tuple and dict with str keys, Secret, and `Any`. Nothing is converted on a
    guess: `"1"` is no int. A field that is missing takes its default if it has one.

    Args:
        cls: A dataclass, or any other of the types above.
        data: What `canonical.load` returned.

    Returns:
        The instance; `dump` of it gives the text that it came from.

    Raises:
        PayloadError: For missing and unknown fields, wrong types, values that the class refuses by ValueError
            or TypeError, and hints that no JSON can fill; its `path` names the place.
    """
    return cast("T", _build(cls, data, "$"))


def _fail(path: str, message: str) -> NoReturn:
    raise PayloadError(message, path=path)


def _expected(hint: Any, data: object, path: str) -> NoReturn:
    found, wanted = "null" if data is None else type(data).__name__, getattr(hint, "__name__", None) or hint
    # what no JSON holds was passed by the project's own code
    foreign = not isinstance(data, (str, int, float, list, dict, type(None)))
    fix = f" Pass a value of {wanted}, or declare the field as {found}." if foreign else ""
    _fail(path, f"expected {wanted}, found {found}.{fix}")


def _build(hint: Any, data: object, path: str) -> Any:
    hint = bare_hint(hint)
    if hint is Any or hint is object:
        return data
    origin = typing.get_origin(hint) or hint
    build = _BUILDERS.get(origin)
    if build is None and isinstance(origin, type):
        if dataclasses.is_dataclass(origin):
            build = _build_dataclass
        elif issubclass(origin, Enum):
            build = _build_enum
    if build is None:
        _fail(path, f"the type hint {hint} cannot be filled from JSON; use the types that a payload may hold.")
    return build(hint, data, path)


def _build_null(_hint: Any, data: object, path: str) -> None:
    if data is not None:
        _expected("null", data, path)


def _build_dataclass(hint: Any, data: object, path: str) -> Any:
    cls = typing.get_origin(hint) or hint
    if not isinstance(data, dict):
        _expected(cls, data, path)
    hints = hints_of(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    for name in data:
        if name not in fields:
            _fail(path, f"{cls.__name__} has no field {name!r}; its fields are {', '.join(fields) or 'none'}.")
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _build(hints[name], data[name], f"{path}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            _fail(path, f"the field {name!r} of {cls.__name__} is missing.")
    try:
        return cls(**values)
    except PayloadError:
        raise
    except (ValueError, TypeError) as error:
        raise PayloadError(f"{cls.__name__} refuses these values: {error}", path=path) from error


def bare_hint(hint: Any) -> Any:
    """Return what a NewType or a `type` statement gives a name to."""
    while (named := getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)) is not None:
        hint = named
    return hint


def is_filled_from_json(kind: Any) -> bool:
    """Return whether a type that is neither a dataclass nor an Enum can be filled from JSON."""
    return kind is Any or kind is object or kind in _BUILDERS


def is_read_from_text(kind: Any) -> bool:
    """Return whether values of a type, text apart, are written as text."""
    return kind in _READERS


@functools.lru_cache(maxsize=256)
def hints_of(cls: type[Any]) -> dict[str, Any]:
    """Return the types of a class's attributes.

    Raises:
        PayloadError: they name what cannot be found.
    """
    try:
        return typing.get_type_hints(cls)
    except (NameError, TypeError) as error:
        raise PayloadError(
            f"the type hints of {cls.__name__} cannot be read ({error}); import what they name at the top of "
            "its module, not under TYPE_CHECKING or in a function."
        ) from error


def _build_union(hint: Any, data: object, path: str) -> Any:
    members = typing.get_args(hint)
    if data is None and type(None) in members:
        return None
    others = [member for member in members if member is not type(None)]
    if len(others) == 1:
        return _build(others[0], data, path)
    for member in others:
        with contextlib.suppress(PayloadError):
            return _build(member, data, path)
    return _expected(hint, data, path)


def _build_literal(hint: Any, data: object, path: str) -> Any:
    for choice in typing.get_args(hint):
        if _is_written_as(choice, data):
            return choice
    _fail(path, f"expected one of {', '.join(map(repr, typing.get_args(hint)))}, found {data!r}.")


def _build_enum(cls: type[Enum], data: object, path: str) -> Enum:
    for member in cls:
        if _is_written_as(member.value, data):
            return member
    _fail(path, f"expected a value of {cls.__name__}, found {data!r}.")


def _is_written_as(value: object, data: object) -> bool:
    """Compare a choice with its JSON form, in which True is not 1 and a Decimal is text."""
    value = value.value if isinstance(value, Enum) else value
    if isinstance(value, (Decimal, UUID, date)):
        value = written(value)
    elif isinstance(value, tuple):
        value = list(value)
    return isinstance(value, bool) == isinstance(data, bool) and value == data


def _build_mapping(hint: Any, data: object, path: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        _expected(hint, data, path)
    arguments = typing.get_args(hint)
    if arguments and arguments[0] not in (str, Any):
        _fail(path, f"the type hint {hint} cannot be filled from JSON, whose keys are text.")
    member = arguments[1] if arguments else Any
    return {key: _build(member, item, f"{path}.{key}") for key, item in data.items()}


def _build_sequence(hint: Any, data: object, path: str) -> list[Any] | tuple[Any, ...]:
    arguments = typing.get_args(hint)
    is_tuple = (typing.get_origin(hint) or hint) is tuple
    if not isinstance(data, list):
        _expected(hint, data, path)
    if is_tuple and arguments and arguments[-1] is not ...:
        members = () if arguments == ((),) else arguments
        if len(members) != len(data):
            _fail(path, f"expected {len(members)} items, found {len(data)}.")
    else:
        members = (arguments[0] if arguments else Any,) * len(data)
    items = [
        _build(member, item, f"{path}[{index}]") for index, (member, item) in enumerate(zip(members, data, strict=True))
    ]
    return tuple(items) if is_tuple else items


def _build_exact(cls: type[Any], data: object, path: str) -> Any:
    return data if type(data) is cls else _expected(cls, data, path)


def _build_secret(_hint: Any, data: object, path: str) -> Secret:
    return data if isinstance(data, Secret) else _expected(Secret, data, path)


def _build_text(cls: type[Any], data: object, path: str) -> Any:
    """Read a value that is written as text, and refuse texts that `dump` would not have written."""
    if not isinstance(data, str):
        _expected(f"{cls.__name__} as a string", data, path)
    try:
        value = _READERS[cls](data)
    except (ValueError, InvalidOperation) as error:
        raise PayloadError(f"{data!r} is no {cls.__name__}.", path=path) from error
    if isinstance(value, Decimal):
        _check_decimal(value, data, path)
    if isinstance(value, datetime) and value.utcoffset() is None:
        _fail(path, f"{data!r} has no offset from UTC.")
    return value


def _check_decimal(value: Decimal, data: str, path: str) -> None:
    """Refuse what `dump` refuses, before the payload's class sees it: `int()` of 1e999999 takes minutes."""
    if not value.is_finite():
        _fail(path, f"{data!r} is not a number.")
    if is_beyond_digits(value):
        _fail(path, f"a decimal of more than {MAX_DECIMAL_EXPONENT} digits; quantize it.")


_READERS: dict[type[Any], Callable[[str], Any]] = {
    Decimal: Decimal,
    UUID: UUID,
    date: date.fromisoformat,
    datetime: read_instant,
}
_BUILDERS: dict[Any, Callable[[Any, object, str], Any]] = {
    None: _build_null,
    type(None): _build_null,
    str: _build_exact,
    int: _build_exact,
    # of outputs: `dump` writes none into a payload
    float: _build_exact,
    bool: _build_exact,
    Secret: _build_secret,
    **dict.fromkeys(_READERS, _build_text),
    **dict.fromkeys((list, tuple, Sequence), _build_sequence),
    **dict.fromkeys((dict, Mapping), _build_mapping),
    Union: _build_union,
    types.UnionType: _build_union,
    Literal: _build_literal,
}
