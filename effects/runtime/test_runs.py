"""Whether this process runs tests, and whether an effect's own code may call its provider then.

A test that forgot a provider would pay real money with whatever key the developer's machine holds. So under pytest and
Django's test runner nothing is called of which the test said nothing, as Django keeps a test's mails in an outbox.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from effects.conf import settings
from effects.declarations.effect import Effect

__all__ = ["UnscriptedCallError", "in_tests", "real_calls", "refuse_real_call"]

#: In the environment, so that threads and child processes of a test are allowed what the test is.
ALLOWED = "EFFECTS_REAL_CALLS"
#: What pytest sets: the first for a session from version 8.2 on, the second while a test runs. Children inherit both.
_PYTEST = ("PYTEST_VERSION", "PYTEST_CURRENT_TEST")


class UnscriptedCallError(BaseException):
    """A test said nothing about a provider that would have been called. Nothing was sent.

    Like the failures of pytest it is no `Exception`, so that neither the code under test nor a sweep that goes on with
    its other rows can hide it from the test.
    """


def in_tests() -> bool:
    """Return whether pytest or Django's test runner runs this process, or one of those that started it is pytest."""
    if any(name in os.environ for name in _PYTEST):
        return True
    # not `mail.outbox`, which Django's in-memory backend makes in any process; and not imported where nobody tests
    state = getattr(sys.modules.get("django.test.utils"), "_TestState", None)
    return hasattr(state, "saved_data")


@contextmanager
def real_calls() -> Iterator[None]:
    """Let effects call their providers in the block, or in the test that it decorates; threads and children too."""
    before = os.environ.get(ALLOWED)
    os.environ[ALLOWED] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(ALLOWED, None)
        else:
            os.environ[ALLOWED] = before


def refuse_real_call(effect: Effect[Any], what: str) -> None:
    """Refuse to call a provider of which the running test said nothing.

    Args:
        effect: whose code would call it.
        what: the method that would run: `send`, `compensate`, `verify`; or `sending`, a block of the project's.

    Raises:
        UnscriptedCallError: nothing was called.
    """
    # `provider_says` puts its answers on the instance
    if not in_tests() or what in effect.__dict__ or (what == "sending" and "send" in effect.__dict__):
        return
    if os.environ.get(ALLOWED) or settings.REAL_CALLS_IN_TESTS or _stays_here(effect):
        return
    name = type(effect).__qualname__
    said = "look_up=effects.Found(…)" if what == "verify" else "effects.Applied(reference=…)"
    raise UnscriptedCallError(
        f"{effect.operation}: this test would have called {name}.{what}, a real call of {effect.provider}, and said "
        f"nothing about it. Nothing was sent. Say what the provider answers, `with provider_says({name}, {said}):` "
        "(effects.testing); or allow real calls, to a sandbox or a substitute: @pytest.mark.effects_real_calls, "
        "`with effects.testing.real_calls():`, or EFFECTS['REAL_CALLS_IN_TESTS'] = True for all tests."
    )


def _stays_here(effect: Effect[Any]) -> bool:
    try:
        return effect.stays_here()
    except Exception:  # noqa: BLE001 - project code, or settings that are wrong: the permit's outcome is still to record
        return False
