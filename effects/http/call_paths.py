"""What protects a view: itself, or what it calls. `post` of a `CreateAPIView` leads to its protected `create`.

The way through a class is read from the methods' code, since the question is asked before a request runs anything: what
a method calls on its own object or through `super()`, and what that calls. A method that is only found by `getattr`
with a computed name is not seen.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple, cast

from effects.http.protection import Protection

__all__ = ["BEHIND", "MARK", "protection_behind", "protection_of"]

#: The attribute by which a protected view is known through decorators that copy attributes.
MARK = "effects_protection"
#: The attribute of a URL's callback that leads to several protected functions.
BEHIND = "effects_protections"

_READS_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_READS_VARIABLE = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")
#: What stands between `super` and the method that is read of it, in the code of Python before 3.12.
_WITHIN_SUPER = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "LOAD_GLOBAL", "PUSH_NULL", "PRECALL", "CALL", "CACHE")


class _Called(NamedTuple):
    """A method that another one calls: of its own object, or of its class's parents."""

    name: str
    of_parents: bool


def protection_of(view: Any) -> Protection | None:
    """Return what `@idempotent` was told of a view, through its decorators and `@api_view`; None for any other."""
    while view is not None:
        view = getattr(view, "__func__", view)
        told: Protection | None = getattr(view, "__dict__", {}).get(MARK)
        if told is not None:
            return told
        view = getattr(view, "__wrapped__", None) or _below_api_view(view)
    return None


def _below_api_view(view: Any) -> Any:
    """Return the function that `@api_view` calls: its handler keeps it in a closure and nowhere else."""
    if not getattr(view, "__qualname__", "").startswith("api_view.<locals>."):
        return None
    return inspect.getclosurevars(view).nonlocals.get("func")


def protection_behind(view: type[Any], name: str) -> Protection | None:
    """Return what `@idempotent` was told of a class's method, or of the first protected one that it calls.

    Args:
        view: the class of the view.
        name: the method that its requests reach: `post`, or the name of an action.
    """
    return _behind(cast("Any", view), name)


@functools.cache
def _behind(view: Any, name: str) -> Protection | None:
    order = view.__mro__
    waiting, seen = [(name, 0)], set()
    while waiting:
        wanted, start = waiting.pop(0)
        place = next((n for n in range(start, len(order)) if wanted in order[n].__dict__), None)
        if place is None or (wanted, place) in seen:
            continue
        seen.add((wanted, place))
        method = order[place].__dict__[wanted]
        if (told := protection_of(method)) is not None:
            return told
        waiting += [(called.name, place + 1 if called.of_parents else 0) for called in _called_by(method)]
    return None


def _called_by(method: Any) -> Iterator[_Called]:
    function = inspect.unwrap(getattr(method, "__func__", method)) if callable(method) else None
    if isinstance(function, FunctionType) and function.__code__.co_argcount:
        yield from _called_in(function.__code__, function.__code__.co_varnames[0])


def _called_in(code: CodeType, own: str) -> Iterator[_Called]:
    """Yield what code reads of the variable `own`, or of `super()`; also within the functions in it."""
    holder = ""
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_SUPER_ATTR":  # Python 3.12 and later
            yield _Called(step.argval, of_parents=True)
        elif step.opname in _READS_ATTRIBUTE and holder:
            yield _Called(step.argval, of_parents=holder == "super")
        if holder != "super" or not step.opname.startswith(_WITHIN_SUPER):
            holder = _read_by(step, own)
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and (own in inner.co_freevars or "__class__" in inner.co_freevars):
            yield from _called_in(inner, own)


def _read_by(step: dis.Instruction, own: str) -> str:
    """Return "own" or "super" where a step leaves the object, or `super`, for the next one; else ""."""
    if step.opname.startswith(_READS_VARIABLE):
        # newer Pythons read two variables in one step, the later one on top
        name = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
        return "own" if name == own else ""
    return "super" if step.opname == "LOAD_GLOBAL" and step.argval == "super" else ""
