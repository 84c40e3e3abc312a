"""Convert the raw values of the `EFFECTS` setting, and say what is wrong with those that cannot be."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from django.utils.module_loading import import_string

from effects.vocabulary.types import LONGEST, ApprovalRule

if TYPE_CHECKING:
    from django.http import HttpRequest

NEVER_REPLAYED = frozenset(
    {
        "age",
        "authentication-info",
        "connection",
        "content-encoding",
        "content-length",
        "date",
        "keep-alive",
        "proxy-authenticate",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "www-authenticate",
    }
)
"""Headers that belong to one exchange or one client; a stored answer must not carry them to another."""

DEFAULT_REPLAY_HEADERS = (
    "Content-Type",
    "Content-Language",
    "Content-Disposition",
    "Content-Location",
    "Location",
    "ETag",
    "Last-Modified",
    "Cache-Control",
    "Link",
    "Vary",
)
"""Headers that describe the representation (RFC 9110 §8) or point somewhere, true for every replay."""


class WrongValueError(ValueError):
    """What is wrong with a value, and the fix; the name of the setting is put before it."""


def _wrong(value: object, expected: str, fix: str) -> WrongValueError:
    return WrongValueError(f"is {value!r} ({type(value).__name__}), but must be {expected}: {fix}")


def to_duration(value: object) -> timedelta:
    """Take a positive timedelta; a bare number is refused, since it has no unit."""
    if not isinstance(value, timedelta):
        raise _wrong(
            value,
            "a datetime.timedelta",
            "write for example timedelta(seconds=60); a bare number has no unit.",
        )
    if value <= timedelta(0):
        raise _wrong(value, "positive", "give it the time that your slowest case needs.")
    if value > LONGEST:
        # the database could not subtract it from now
        raise _wrong(value, "at most 100 years", "timedelta(days=36525) is as good as for ever.")
    return value


def to_optional_duration(value: object) -> timedelta | None:
    """Take a positive timedelta, or None."""
    return None if value is None else to_duration(value)


def to_count(value: object) -> int:
    """Take an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _wrong(value, "an integer of at least 1", "leave the key out for the default.")
    return value


def to_flag(value: object) -> bool:
    """Take True or False."""
    if not isinstance(value, bool):
        raise _wrong(value, "True or False", "leave the key out for the default.")
    return value


def to_optional_count(value: object) -> int | None:
    """Take an integer of at least 1, or None."""
    return None if value is None else to_count(value)


#: In `MAX_CALLS_PER_PROVIDER`: every provider that is not named.
EVERY_PROVIDER = "*"


def to_call_limits(value: object) -> dict[str, int]:
    """Take a count for each provider, or one for all; None limits nothing."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return {EVERY_PROVIDER: to_count(value)}
    for provider, limit in value.items():
        if not isinstance(provider, str) or not provider:
            raise _wrong(provider, "the provider of an effect", "write {'stripe/acct_main': 10}; '*' is all others.")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise _wrong(limit, f"an integer of at least 1 for {provider!r}", "leave a provider out for no limit.")
    return dict(value)


def to_text(value: object) -> str:
    """Take a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise _wrong(value, "a non-empty string", "leave the key out for the default.")
    return value


def _import(path: str) -> Any:
    try:
        return import_string(path)
    except ImportError as error:
        raise WrongValueError(
            f"names {path!r}, which cannot be imported ({error}); write the dotted path of a module and of a "
            "name in it."
        ) from error


def to_callable(value: object) -> Callable[..., Any]:
    """Take a callable, or import one by its dotted path."""
    target = _import(value) if isinstance(value, str) else value
    if not callable(target):
        raise _wrong(value, "a callable or the dotted path of one", "name a function.")
    return cast("Callable[..., Any]", target)


def to_optional_callable(value: object) -> Callable[..., Any] | None:
    """Take a callable, its dotted path, or None."""
    return None if value is None else to_callable(value)


def to_tenant(value: object) -> Callable[[HttpRequest], str]:
    """Take the callable of `TENANT`, or its default."""
    return single_tenant if value is None else to_callable(value)


def to_subject(value: object) -> Callable[[HttpRequest], str | None]:
    """Take the callable of `SUBJECT`, or its default."""
    return authenticated_subject if value is None else to_callable(value)


def to_tenant_context(value: object) -> Callable[[str], AbstractContextManager[Any]]:
    """Take the callable of `TENANT_CONTEXT`, or its default."""
    return no_context if value is None else to_callable(value)


def to_headers(value: object) -> tuple[str, ...]:
    """Take names of headers, none of which belongs to one exchange or one client."""
    if isinstance(value, str) or not isinstance(value, (list, tuple, set, frozenset)):
        raise _wrong(value, "a tuple of header names", "write ('Content-Type', 'Location').")
    for name in value:
        if not isinstance(name, str):
            raise _wrong(name, "a header name", "write ('Content-Type', 'Location').")
        if name.lower() in NEVER_REPLAYED or name.lower().startswith("access-control-"):
            raise WrongValueError(f"names {name}, which belongs to one exchange or client; take it out.")
    return tuple(value)


#: Headers that say something else, or something new at each try, as a proxy's id does.
_OTHER_HEADERS = frozenset(
    {
        "authorization", "cookie", "expect", "forwarded", "from", "host", "idempotency-status", "idempotent-replayed",
        "origin", "prefer", "range", "referer", "traceparent", "tracestate", "user-agent", "via", "x-correlation-id",
        "x-csrftoken", "x-http-method-override", "x-real-ip", "x-request-id", "x-requested-with",
    }
)  # fmt: skip
_OTHER_PREFIXES = ("accept", "access-control-", "content-", "if-", "proxy-", "sec-", "x-forwarded-")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*")


def to_key_header(value: object) -> str:
    """Take the name of a request header that means nothing else and reaches Django: servers drop those with a "_"."""
    if not isinstance(value, str) or not _HEADER.fullmatch(value):
        raise _wrong(value, "a header's name of letters, digits and hyphens", "write 'X-Idempotency-Key'.")
    name = value.lower()
    if name in _OTHER_HEADERS or name in NEVER_REPLAYED or name.startswith(_OTHER_PREFIXES):
        raise WrongValueError(
            f"names {value}, which has a meaning of its own, so that a retry may not repeat it; use a header for keys "
            "alone, such as 'X-Idempotency-Key'."
        )
    return value


def to_risk_rules(value: object) -> dict[str, ApprovalRule]:
    """Take a mapping; enum keys become their values, and of keys that become the same both rules hold."""
    if not isinstance(value, Mapping):
        raise _wrong(value, "a dict", "map a risk or an operation to its rule, as in {'high': rule}.")
    rules: dict[str, ApprovalRule] = {}
    for key, rule in value.items():
        if not isinstance(rule, ApprovalRule):
            raise _wrong(rule, f"an ApprovalRule for {key!r}", "write effects.ApprovalRule(approvers='app.codename').")
        name = str(key.value if isinstance(key, Enum) else key)
        rules[name] = rule.tightened(rules.get(name))
    return rules


DISPATCHERS = ("celery", "django_tasks", "none")


def to_dispatch(value: object) -> str | Callable[[str], Any]:
    """Take one of `DISPATCHERS`, a callable, or its dotted path."""
    if isinstance(value, str) and "." not in value:
        if value not in DISPATCHERS:
            meant = closest(value.lower().replace("-", "_"), DISPATCHERS)
            fix = f"did you mean {meant!r}?" if meant else "choose one."
            raise _wrong(value, f"one of {', '.join(DISPATCHERS)}, or the dotted path of a callable", fix)
        return value
    return to_callable(value)


def single_tenant(_request: HttpRequest) -> str:
    """Return "": all callers belong to one tenant. The default of `TENANT`."""
    return ""


def authenticated_subject(request: HttpRequest) -> str | None:
    """Return `user:<pk>` of an authenticated user, None for anybody else. The default of `SUBJECT`."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated or user.pk is None:
        return None
    return f"user:{user.pk}"


def no_context(_tenant_name: str) -> AbstractContextManager[None]:
    """Return a context that does nothing. The default of `TENANT_CONTEXT`."""
    return nullcontext()


def closest(word: str, choices: tuple[str, ...]) -> str | None:
    """Return the choice that was probably meant by a misspelt word, or None."""
    close = difflib.get_close_matches(word, choices, n=1)
    return close[0] if close else None
