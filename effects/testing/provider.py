"""A provider's answers, said by the test: the runtime around them is the real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from effects.declarations.effect import Effect, get_effect
from effects.runtime.test_runs import UnscriptedCallError, real_calls
from effects.vocabulary.types import Context, Permit, SendResult
from effects.vocabulary.verdicts import Inconclusive, Verdict

__all__ = ["ProviderScript", "UnscriptedCallError", "provider_says", "real_calls", "speaks_for"]

#: What a provider answers: a result, an error to raise, or a function that decides.
Answer = SendResult | BaseException | type[BaseException] | Callable[..., Any]


class ProviderScript:
    """What the provider was asked and what it answers next; the last answer of a kind repeats."""

    def __init__(self, sends: tuple[Any, ...], look_ups: tuple[Any, ...]) -> None:
        self._sends, self._look_ups = list(sends), list(look_ups)
        #: The sends that reached the provider: (context, permit) each.
        self.sends: list[tuple[Context[Any], Permit]] = []
        #: The look-ups that reached it.
        self.look_ups: list[Context[Any]] = []
        #: What was sent although the test said nothing about a send.
        self.unexpected: list[str] = []

    def send(self, context: Context[Any], permit: Permit) -> SendResult:
        """Answer a send, or an undoing: return the next value, raise it if it is an exception, call it if it is one."""
        self.sends.append((context, permit))
        if not self._sends:
            self.unexpected.append(f"{context.operation} {context.key} was sent, and the test said nothing about that")
            raise AssertionError(self.unexpected[-1])
        result: SendResult = _next(self._sends, context, permit)
        return result

    def verify(self, context: Context[Any]) -> Verdict:
        """Answer a look-up."""
        self.look_ups.append(context)
        if not self._look_ups:
            return Inconclusive("the test said nothing about a look-up")
        verdict: Verdict = _next(self._look_ups, context)
        return verdict


@contextmanager
def provider_says(effect: type[Effect[Any]] | str, *sends: Answer, look_up: Any = ()) -> Iterator[ProviderScript]:
    """Let the provider of one effect answer as the test says; everything else is the real runtime.

    Args:
        effect: a registered effect, or its operation.
        sends: what `send` and `compensate` return or raise, one after the other; the last one repeats. A function is
            called with context and permit, as they are.
        look_up: the same for `verify`: one answer, or several. A function is called with the context.

    Yields:
        The script: `sends` and `look_ups` record what reached the provider.

    Raises:
        AssertionError: at the end of the block, if something was sent and no `sends` were given. (Within `send` it
            would be doubt, as any error there.)
    """
    instance = get_effect(effect)
    verdicts = look_up if isinstance(look_up, (tuple, list)) else (look_up,)
    script = ProviderScript(sends, tuple(verdicts))
    with speaks_for(instance, script.send, script.verify):
        yield script
    if script.unexpected:
        raise AssertionError("; ".join(script.unexpected))


@contextmanager
def speaks_for(effect: Effect[Any], send: Callable[..., Any], verify: Callable[..., Any]) -> Iterator[None]:
    """Let these answer in the block what one effect's provider is sent and asked."""
    # on the instance, not the class: subclasses and other effects keep their provider
    before = dict(effect.__dict__)
    effect.__dict__.update(send=send, compensate=send, verify=verify)
    try:
        yield
    finally:
        effect.__dict__.clear()
        effect.__dict__.update(before)


def _next(answers: list[Any], *arguments: Any) -> Any:
    answer = answers.pop(0) if len(answers) > 1 else answers[0]
    if isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException)):
        raise answer
    return answer(*arguments) if callable(answer) else answer
