"""`@idempotent`: one key, one request, one answer."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import MethodType
from typing import Any, Literal, NamedTuple, NoReturn

from asgiref.sync import markcoroutinefunction, sync_to_async
from django.db import InterfaceError, OperationalError, connections, transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from effects.conf import settings
from effects.declarations.effect import Effect
from effects.declarations.operations import says_not_finished
from effects.http.answers import STATUS, unavailable
from effects.http.async_views import Handler, refuse_rest_framework, shielded
from effects.http.calls import Call, call_of
from effects.http.failures import failure
from effects.http.fingerprints import (
    VERSION,
    BodyTooLargeError,
    BodyUnreadableError,
    FingerprintFields,
    UnknownDefinitionError,
    compare,
    differs,
    fingerprint,
)
from effects.http.identity import Identity, identify
from effects.http.journaled import run_journaled
from effects.http.keys import KeyInvalidError, parse_key, raw_key
from effects.http.placement import (
    exempt,
    is_async,
    refuse_inner_method,
    refuse_outer_transaction,
    refuse_placement,
    refuse_safe_method,
)
from effects.http.problems import problem
from effects.http.protection import Freeze, Protection, make_protection
from effects.http.replay import Compare
from effects.http.transactional import run_transactional
from effects.journal.commits import is_beside
from effects.journal.logs import get_logger
from effects.transitions import Opening
from effects.vocabulary.exceptions import EffectsError, JournalBesideError, NameUnusableError, PayloadError

__all__ = ["Protected", "idempotent"]

log = get_logger("effects.http")

#: What `NOT_EXECUTED` is told where somebody else refuses: an anonymous caller, a body that no parser reads.
REFUSED = "request_refused"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def idempotent(
    operation: str,
    *,
    mode: Literal["transactional", "journaled"],
    performs: Iterable[type[Effect[Any]] | str] = (),
    answer: Callable[..., Any] | None = None,
    required: bool = True,
    identity: Callable[[Any], str | None] | str | None = None,
    scope: Callable[[Any], str] | str | None = None,
    fingerprint: FingerprintFields | Callable[[Any], object] | None = None,
    wait: timedelta = timedelta(0),
    freeze: Freeze = None,
    local_writes: bool = False,
) -> Callable[[Callable[..., Any]], Protected]:
    """Run a view once for each idempotency key, and answer a repeated request with the first answer's bytes.

    Stands on methods of `APIView` and `ViewSet` (above or below `@action`) and of Django's class-based views, below
    `@api_view`, below django-ninja's `@api.post`, and on plain views; journaled, also on async ones of Django.
    Authentication, permissions, throttles and negotiation run before it, on replays too.

    Args:
        operation: the name of what is protected: "orders.refund".
        mode: "transactional": rows, key and answer commit together, and no provider may be called. "journaled": the
            key is recorded first, the handler runs outside of any transaction and calls providers.
        performs: the effects that a journaled view performs; such a view calls out through `perform` alone and heals
            itself after a crash. Empty: an opaque view, which may call out by itself, so that a crash leaves it in
            doubt.
        answer: builds a journaled view's response from the outcomes of what it performed, in order; may return
            `NotFinished`. Required with `performs=`.
        required: refuse a request without a key; otherwise it runs unprotected, and its answer says so.
        identity: who calls, where that is not the authenticated user: a name, or a callable given the request.
        scope: separates keys of one caller: a name, or a callable given the request; one scope for all by default.
        fingerprint: which fields of the body count (`FingerprintFields`), or a callable that returns what counts.
        wait: how long a duplicate waits for the first to end before its 409.
        freeze: which error answers are stored: statuses, or a callable given the response.
        local_writes: a view with `performs=` writes rows outside of `finishing()`; gives up that its key is freed
            where nothing was sent.

    Raises:
        ImproperlyConfigured: at decoration, with the corrected lines.
    """
    protection = make_protection(
        operation, mode=mode, performs=performs, answer=answer, required=required, identity=identity, scope=scope,
        fingerprint=fingerprint, wait=wait, freeze=freeze, local_writes=local_writes,
    )  # fmt: skip

    def decorate(view: Callable[..., Any]) -> Protected:
        refuse_placement(view, operation, mode)
        return (AsyncProtected if is_async(view) else Protected)(view, protection)

    return decorate


class Protected:
    """A protected view, in the place of the function that it wraps."""

    __wrapped__: Callable[..., Any]

    def __init__(self, view: Callable[..., Any], protection: Protection) -> None:
        functools.update_wrapper(self, view)
        self.effects_protection = protection
        # enough where this is the URL's callback; Django asks the callback alone
        self._non_atomic_requests = set(connections)
        # django-ninja resolves the function's annotations by its module, and lets others work on what it makes of it
        self.__globals__ = getattr(inspect.unwrap(view), "__globals__", {})
        self._ninja_contribute_to_operation = [self._adopt, *getattr(view, "_ninja_contribute_to_operation", ())]

    def _adopt(self, operation: Any) -> None:
        """Take over what django-ninja has made of the function."""
        from effects.http.ninja import adopt  # noqa: PLC0415 - django-ninja is optional

        adopt(operation, self.effects_protection)

    def __set_name__(self, owner: type[Any], name: str) -> None:
        """Learn the class: its views leave ATOMIC_REQUESTS."""
        operation = self.effects_protection.operation
        refuse_safe_method(name, operation.name, is_viewset=hasattr(owner, "get_extra_actions"))
        refuse_inner_method(self.__wrapped__, name, owner, operation.name, operation.mode)
        exempt(owner)

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """Bind to a view, as a function does."""
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a request: `(request, …)`, or `(view, request, …)`."""
        call = call_of(_request_of(args), functools.partial(self.__wrapped__, *args, **kwargs))
        if _is_safe(call):
            return call.run()
        key = _key_of(self.effects_protection, call)
        if isinstance(key, _Refused):
            call.not_executed(key.code)
            return call.send(key.response)
        try:
            if key is not None:
                return call.send(_with_key(self.effects_protection, call, key))
            return self._without_key(call)
        except EffectsError as error:
            return call.send(failure(call.http, error))

    def _without_key(self, call: Call) -> HttpResponseBase:
        _refuse_beside(self.effects_protection)
        call.announce(STATUS, "ignored")
        try:
            if self.effects_protection.operation.mode == "transactional":
                with transaction.atomic(using=settings.DATABASE):
                    return _unprotected(call.run())
            return _unprotected(call.run())
        except EffectsError as error:
            return _unprotected(call.handle(error))


class AsyncProtected(Protected):
    """A protected async view of Django; see `async_views` for who runs where."""

    def __init__(self, view: Callable[..., Any], protection: Protection) -> None:
        super().__init__(view, protection)
        markcoroutinefunction(self)

    def __set_name__(self, owner: type[Any], name: str) -> None:
        """Learn the class: it is not REST framework's, which awaits nothing."""
        if hasattr(owner, "initialize_request"):
            refuse_rest_framework(self.effects_protection.operation.name)
        super().__set_name__(owner, name)

    @property
    def renderer_classes(self) -> NoReturn:
        """Refuse `@api_view` when the module is imported: it asks the function below it for these."""
        refuse_rest_framework(self.effects_protection.operation.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the coroutine that answers a request: `(request, …)`, or `(view, request, …)`."""
        request = _request_of(args)
        if not isinstance(request, HttpRequest):
            refuse_rest_framework(self.effects_protection.operation.name)
        return self._answer(request, Handler(functools.partial(self.__wrapped__, *args, **kwargs)))

    async def _answer(self, request: HttpRequest, handler: Handler) -> HttpResponseBase:
        call = Call(request, handler.run)
        if _is_safe(call):
            return await handler.view()
        key = _key_of(self.effects_protection, call)
        if isinstance(key, _Refused):
            await sync_to_async(call.not_executed, thread_sensitive=True)(key.code)
            return key.response
        try:
            if key is None:
                return _unprotected(await handler.view())
            return await shielded(functools.partial(_with_key, self.effects_protection, call, key), handler)
        except EffectsError as error:
            return await sync_to_async(failure, thread_sensitive=True)(request, error)


def _request_of(args: tuple[Any, ...]) -> Any:
    # a method's own argument first: a view may keep the request in an attribute of any name
    return next((each for each in args[1::-1] if isinstance(getattr(each, "_request", each), HttpRequest)), args[0])


def _is_safe(call: Call) -> bool:
    return (call.http.method or "").upper() in _SAFE


class _Refused(NamedTuple):
    """A refusal before anything is recorded."""

    code: str
    response: HttpResponseBase


def _key_of(protection: Protection, call: Call) -> str | _Refused | None:
    """Return the key; the refusal where it cannot be used, or is missing and required; None where there is none."""
    try:
        key = parse_key(raw_key(call.http.META))
    except KeyInvalidError as error:
        return _Refused(error.code, problem(error.code, extra={"reason": error.reason}))
    if key is None and protection.required:
        return _Refused("idempotency_key_missing", problem("idempotency_key_missing"))
    return key


def _unprotected(response: HttpResponseBase) -> HttpResponseBase:
    """Return the answer of a view that ran without a key, which says so."""
    if says_not_finished(response):
        response = problem("operation_uncertain")
    response[STATUS] = "ignored"
    return response


@functools.cache
def _tell_anonymous(operation: str) -> None:
    """Say once in each process that a view lets in callers whom nobody knows, and how to name them."""
    log.warning(
        "%s: a caller without a user is refused, since a key belongs to its caller. Where a permission class alone "
        "tells callers apart, by an API key for instance, name them: @idempotent(…, identity=lambda request: …), or "
        "EFFECTS['SUBJECT'].",
        operation,
    )


def _with_key(protection: Protection, call: Call, key: str) -> HttpResponseBase:
    refuse_outer_transaction(protection.operation.name)
    _refuse_beside(protection)
    try:
        who = identify(call.request, protection.identity)
        if who is None:
            _tell_anonymous(protection.operation.name)
            call.refuse_anonymous()
        parts = fingerprint(call.request, protection.fingerprint)
        call.parse()
        opening = _opening(protection, call, who, key, parts)
    except (BodyTooLargeError, BodyUnreadableError) as error:
        call.not_executed(error.code)
        return problem(error.code, status=error.status, extra={"reason": error.reason})
    except PayloadError as error:
        # of a callable `fingerprint=`, which returned what the client sent
        call.not_executed(BodyUnreadableError.code)
        return problem(BodyUnreadableError.code, status=BodyUnreadableError.status, extra={"reason": str(error)})
    except NameUnusableError:
        # not in words that repeat it: who calls may be what a client sent in a body
        log.exception("The caller of %s cannot be recorded.", protection.operation.name)
        call.not_executed(BodyUnreadableError.code)
        reason = _("It names a caller, tenant or scope that cannot be recorded.")
        return problem(BodyUnreadableError.code, status=BodyUnreadableError.status, extra={"reason": reason})
    except (OperationalError, InterfaceError):
        # who calls is asked of the session's or the user's table; without them nothing can be recorded either
        log.exception("The caller of %s cannot be known now.", protection.operation.name)
        call.not_executed("execution_unavailable")
        return unavailable()
    except Exception:
        call.not_executed(REFUSED)
        raise
    run = run_transactional if protection.operation.mode == "transactional" else run_journaled
    return run(protection, call, opening, _comparison(protection, call, parts))


def _refuse_beside(protection: Protection) -> None:
    """Refuse a transactional view whose rows are in another database than the journal.

    Raises:
        JournalBesideError: with the fix.
    """
    if protection.operation.mode == "transactional" and is_beside():
        raise JournalBesideError(
            f"{protection.operation.name!r} is transactional, and the journal is another database than its rows: they "
            'cannot commit together. Make it mode="journaled".'
        )


def _opening(protection: Protection, call: Call, who: Identity, key: str, parts: dict[str, str]) -> Opening:
    operation = protection.operation
    transactional = operation.mode == "transactional"
    return Opening(
        operation=operation.name,
        mode=operation.mode,
        tenant=who.tenant,
        subject=who.subject,
        scope=protection.scope_of(call.request),
        key=key,
        fingerprint=parts,
        fingerprint_version=VERSION,
        # a transactional view cannot call out through us, so it is not opaque
        declared=operation.performs or () if transactional else operation.performs,
        # what the handler writes beside the journal cannot be seen, so its key is not freed
        local_writes=operation.local_writes or is_beside(),
        actor=who.actor,
    )


def _comparison(protection: Protection, call: Call, parts: dict[str, str]) -> Compare:
    """Return what compares this request with a stored fingerprint by the definition that the row names."""

    def compared(version: int, stored: Mapping[str, str]) -> Sequence[str] | None:
        if version == VERSION:
            return differs(stored, parts)
        try:
            return compare(version, stored, call.request, protection.fingerprint)
        except UnknownDefinitionError:
            return None

    return compared
