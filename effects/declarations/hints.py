"""Whether the values of a declared type can be read back from the journal; asked where an effect is registered.

A type that no JSON can fill would fail at the first call, or days later in a worker.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Union

from effects.vocabulary import canonical
from effects.vocabulary.exceptions import PayloadError
from effects.vocabulary.hydration import bare_hint, hints_of, is_filled_from_json, is_read_from_text

__all__ = ["find_problem"]


def find_problem(hint: Any, *, floats: bool = False) -> str:
    """Return why values of a type cannot be read back, with its place and what to write; empty where they can.

    Args:
        hint: a payload's type, or an output's.
        floats: whether it may hold floats: an output's may.
    """
    return next(_Reader(floats).problems(hint, "$"), "")


class _Reader:
    """One walk over a type and those that it is made of."""

    def __init__(self, floats: bool) -> None:
        self._floats = floats
        self._seen: list[Any] = []

    def problems(self, hint: Any, path: str) -> Iterator[str]:
        hint = bare_hint(hint)
        origin = typing.get_origin(hint) or hint
        if isinstance(origin, type) and dataclasses.is_dataclass(origin):
            yield from self._of_record(origin, path)
        elif isinstance(origin, type) and issubclass(origin, Enum):
            yield from self._of_choices(origin.__name__, [member.value for member in origin], path)
        elif origin is Literal:
            yield from self._of_choices("Literal", typing.get_args(hint), path)
        elif origin in (Union, types.UnionType):
            yield from self._of_union(hint, path)
        elif origin in (dict, Mapping):
            yield from self._of_mapping(hint, path)
        elif origin in (list, tuple, Sequence):
            for item in typing.get_args(hint):
                if item not in (..., ()):
                    yield from self.problems(item, f"{path}[]")
        elif not is_filled_from_json(origin) or (origin is float and not self._floats):
            yield f"{path}: {_shown(hint)}: {canonical.fix_of(origin)}"

    def _of_record(self, cls: Any, path: str) -> Iterator[str]:
        if cls in self._seen:
            return
        self._seen.append(cls)
        try:
            hints = hints_of(cls)
        except PayloadError as error:
            yield f"{path}: {_without_path(error)}"
            return
        known = {field.name: field for field in dataclasses.fields(cls)}
        for name, hint in hints.items():
            if isinstance(hint, dataclasses.InitVar):
                yield f"{path}.{name}: an InitVar is not kept, so that it could not be given again; make it a field"
            elif name in known and known[name].init:
                yield from self.problems(hint, f"{path}.{name}")
        yield from _of_constructor(cls, [field.name for field in known.values() if field.init], path)

    def _of_union(self, hint: Any, path: str) -> Iterator[str]:
        members = [bare_hint(member) for member in typing.get_args(hint)]
        if not members:
            yield f"{path}: a payload has one type, not several; write the class itself"
        for number, member in enumerate(members):
            yield from self.problems(member, path)
            lost = [_shown(later) for later in members[number + 1 :] if member is str and _is_text(later)]
            if lost:
                yield f"{path}: {_shown(hint)}: all text is read as a str; put str last, after {lost[0]}"

    def _of_mapping(self, hint: Any, path: str) -> Iterator[str]:
        key, item = typing.get_args(hint) or (str, Any)
        if bare_hint(key) not in (str, Any):
            yield f"{path}: {_shown(hint)}: JSON's keys are text; write dict[str, {_shown(item)}]"
        yield from self.problems(item, f"{path}{{}}")

    def _of_choices(self, name: str, values: Sequence[Any], path: str) -> Iterator[str]:
        """Say which of some values cannot be kept, or is kept as another is."""
        known: dict[str, Any] = {}
        for value in values:
            try:
                text = repr(value) if self._floats and isinstance(value, float) else canonical.dump(value)
            except PayloadError as error:
                yield f"{path}: the value {value!r:.80} of {name}: {_without_path(error)}"
                continue
            if text in known:
                yield f"{path}: {name} has {known[text]!r:.80} and {value!r:.80}, which are both written as {text:.80}"
            known[text] = value


def _of_constructor(cls: Any, names: Sequence[str], path: str) -> Iterator[str]:
    """Say why a class cannot be made of its fields alone, which is all that is kept."""
    if inspect.isabstract(cls):
        yield f"{path}: {cls.__name__} is abstract, so that nothing can be read as it; name the classes that are meant"
        return
    try:
        inspect.signature(cls).bind(**dict.fromkeys(names))
    except TypeError as error:
        yield f"{path}: {cls.__name__}() does not take its own fields ({error}); leave __init__ to the dataclass"


def _is_text(hint: Any) -> bool:
    if typing.get_origin(hint) is Literal:
        return any(not isinstance(value, str) and _writes_text(value) for value in typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return any(_writes_text(member.value) for member in hint)
    return is_read_from_text(hint)


def _writes_text(value: Any) -> bool:
    try:
        return canonical.dump(value).startswith('"')
    except PayloadError:
        return False


def _without_path(error: PayloadError) -> str:
    return str(error).removeprefix(f"{error.path}: ").removesuffix(".")


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint).replace("typing.", "")
