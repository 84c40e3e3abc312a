"""Two views of one operation: what is asked by its name alone, later, has one answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import JsonResponse

from effects.declarations import operations
from effects.http.decorators import idempotent
from tests.core.declared import Charge

NAME = "one.operation"


def by_header(name: str) -> Callable[[Any], Any]:
    def identity(request: Any) -> Any:
        return request.headers.get(name)

    return identity


def read(request: Any, name: str = "X-Sender") -> Any:
    return request.headers.get(name)


class Header:
    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, request: Any) -> Any:
        return request.headers.get(self.name)


def answered(*outcomes: Any) -> Any:
    return JsonResponse({})


SHARED = Header("X-Sender")


def view(request: Any) -> Any:
    return JsonResponse({})


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """The operation is declared by the test alone."""
    yield
    operations._operations.pop(NAME, None)


def declare(**options: Any) -> None:
    idempotent(NAME, mode="journaled", **options)(view)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("machine", "robot"),
        (None, "machine"),
        (read, None),
        (lambda request: request.headers.get("X-A"), lambda request: request.headers.get("X-B")),
        (by_header("X-A"), by_header("X-B")),
        (functools.partial(read, name="X-A"), functools.partial(read, name="X-B")),
        (Header("X-A").read, Header("X-B").read),
        (read, answered),
    ],
)
def test_views_that_know_their_callers_differently_are_refused(first: Any, second: Any) -> None:
    """The status resource asks by the operation's name who may see it; it could ask only one of them."""
    declare(identity=first)
    with pytest.raises(ImproperlyConfigured, match="identity"):
        declare(identity=second)


@pytest.mark.parametrize("identity", [None, "machine", read, by_header("X-A"), lambda request: "x", SHARED.read])
def test_views_that_know_them_alike_are_one_operation(identity: Any) -> None:
    """Written once and used twice."""
    declare(identity=identity)
    declare(identity=identity)


def test_a_module_that_is_imported_again_declares_the_same() -> None:
    """Its functions are others, of the same names; what a function made is known by what it was made with."""
    for _ in range(2):
        declare(identity=by_header("X-A"))


def test_answers_that_differ_are_refused_too() -> None:
    """Whoever settles the request asks by the operation's name as well; two lambdas have one name."""
    options: dict[str, Any] = {"performs": [Charge]}
    declare(answer=lambda outcome: JsonResponse({"a": 1}), **options)
    with pytest.raises(ImproperlyConfigured, match="answer"):
        declare(answer=lambda outcome: JsonResponse({"b": 1}), **options)
