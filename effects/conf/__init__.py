"""Read the `EFFECTS` setting: typed, with defaults, at the moment of access.

`settings.REQUEST_LEASE` looks into `django.conf.settings.EFFECTS` each time, so `override_settings` works
and nothing is read at import. A wrong value raises ImproperlyConfigured that names the setting, what is
wrong and the fix; `problems()` collects the same messages for the system checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured

from effects.conf import values as values

__all__ = ["DOCS", "SETTINGS", "Setting", "SettingProblem", "is_set", "problems", "settings", "unknown_keys"]

DOCS = "https://django-effects.readthedocs.io/en/latest"
"""Root of the documentation, without a slash at its end; checks and problems link below it."""

T = TypeVar("T")


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One key of `EFFECTS`.

    Attributes:
        name: The key, as users type it.
        default: What holds while the key is absent, as the reference page shows it.
        type: The type in words.
        doc: One sentence that says what it does.
    """

    name: str
    default: Any
    type: str
    doc: str
    convert: Callable[[Any], T] = field(repr=False)

    def read(self) -> T:
        """Return the present value.

        Raises:
            ImproperlyConfigured: If it is wrong; the message says what to do.
        """
        raw = _configured().get(self.name, self.default)
        try:
            return self.convert(raw)
        except values.WrongValueError as error:
            raise ImproperlyConfigured(f"EFFECTS[{self.name!r}] {error}") from error

    @overload
    def __get__(self, instance: None, owner: Any) -> Setting[T]: ...
    @overload
    def __get__(self, instance: object, owner: Any) -> T: ...
    def __get__(self, instance: object | None, owner: Any) -> Setting[T] | T:
        return self if instance is None else self.read()

    def __set__(self, instance: object, value: object) -> None:
        raise AttributeError(f"{self.name} is read-only here; set EFFECTS in your settings or override_settings.")


@dataclass(frozen=True)
class SettingProblem:
    """One thing that is wrong with `EFFECTS`.

    Attributes:
        name: The key it is about.
        message: What is wrong.
        hint: What to do, or "".
        unknown: Whether the key itself is not one of ours.
    """

    name: str
    message: str
    hint: str = ""
    unknown: bool = False


def _configured() -> Mapping[str, Any]:
    value = getattr(django_settings, "EFFECTS", None)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ImproperlyConfigured(
            f"EFFECTS is a {type(value).__name__}; make it a dict, as in EFFECTS = {{'DATABASE': 'default'}}."
        )
    return value


_PATH = "callable or dotted path"


class Settings:
    """The attributes of `settings`, one per key of `EFFECTS`. Reading one may raise ImproperlyConfigured."""

    DATABASE = Setting(
        "DATABASE",
        "default",
        "str",
        "Alias of the PostgreSQL database that holds the journal.",
        values.to_text,
    )
    TENANT = Setting(
        "TENANT",
        None,
        _PATH,
        "Called with the request, returns the tenant's name; one tenant if unset.",
        values.to_tenant,
    )
    SUBJECT = Setting(
        "SUBJECT",
        None,
        _PATH,
        "Called with the request, returns who calls, None for anonymous; `user:<pk>` if unset.",
        values.to_subject,
    )
    ON_BEHALF_OF = Setting(
        "ON_BEHALF_OF",
        None,
        _PATH,
        "Called with a request of the API, returns the user for whom the caller acts, who then asks as well; or None.",
        values.to_optional_callable,
    )
    TENANT_CONTEXT = Setting(
        "TENANT_CONTEXT",
        None,
        _PATH,
        "Called with a tenant's name, returns the context manager that surrounds background work for it.",
        values.to_tenant_context,
    )
    REPLAY_CHECK = Setting(
        "REPLAY_CHECK",
        None,
        _PATH,
        "Called before a stored answer is replayed; may refuse.",
        values.to_optional_callable,
    )
    RECONCILE_CHECK = Setting(
        "RECONCILE_CHECK",
        None,
        _PATH,
        "Called before background work looks something in doubt up, or sends it again; may refuse for now.",
        values.to_optional_callable,
    )
    NOT_EXECUTED = Setting(
        "NOT_EXECUTED",
        None,
        _PATH,
        "Called with the request and a code when a protected view's handler did not run.",
        values.to_optional_callable,
    )
    REPLAY_HEADERS = Setting(
        "REPLAY_HEADERS",
        values.DEFAULT_REPLAY_HEADERS,
        "tuple of str",
        "Headers of the answer that are stored and replayed; all others are not.",
        values.to_headers,
    )
    KEY_HEADER = Setting(
        "KEY_HEADER",
        "Idempotency-Key",
        "str",
        "Name of the request header that carries the key.",
        values.to_key_header,
    )
    RISK_RULES = Setting(
        "RISK_RULES",
        {},
        "dict",
        "Approval rules by risk or operation; they only tighten.",
        values.to_risk_rules,
    )
    REDACTOR = Setting(
        "REDACTOR",
        None,
        _PATH,
        "Called with a text and its place, returns what may be written of it.",
        values.to_optional_callable,
    )
    NOTIFY = Setting(
        "NOTIFY",
        None,
        _PATH,
        "Called with a Notice when people have something to decide or to know; nobody is told if unset.",
        values.to_optional_callable,
    )
    DISPATCH = Setting(
        "DISPATCH",
        "none",
        "str or callable",
        "Who runs due executions: celery, django_tasks, none (sweeps only), or a callable given the id.",
        values.to_dispatch,
    )
    REQUEST_LEASE = Setting(
        "REQUEST_LEASE",
        timedelta(seconds=60),
        "timedelta",
        "How long a request stays its process's own without a renewal.",
        values.to_duration,
    )
    HANDLER_MAX = Setting(
        "HANDLER_MAX",
        timedelta(minutes=10),
        "timedelta",
        "How long a handler may run before its lease is no longer renewed.",
        values.to_duration,
    )
    LEASE_GRACE = Setting(
        "LEASE_GRACE",
        timedelta(seconds=5),
        "timedelta",
        "How long an attempt's lease outlasts its send deadline.",
        values.to_duration,
    )
    ANSWER_RETENTION = Setting(
        "ANSWER_RETENTION",
        timedelta(hours=72),
        "timedelta",
        "How long a stored answer can be replayed.",
        values.to_duration,
    )
    KEY_RETENTION = Setting(
        "KEY_RETENTION",
        timedelta(days=30),
        "timedelta",
        "How long an ended request keeps its key, so that it never runs again.",
        values.to_duration,
    )
    EXECUTION_RETENTION = Setting(
        "EXECUTION_RETENTION",
        None,
        "timedelta or None",
        "How long a settled execution keeps payload, output and messages; for ever if unset.",
        values.to_optional_duration,
    )
    MAX_ANSWER_BYTES = Setting(
        "MAX_ANSWER_BYTES", 1024 * 1024, "int", "Largest answer that is stored, in bytes.", values.to_count
    )
    MAX_FINGERPRINT_BYTES = Setting(
        "MAX_FINGERPRINT_BYTES",
        1024 * 1024,
        "int",
        "Largest body that is fingerprinted, uploaded files not counted, in bytes.",
        values.to_count,
    )
    MAX_OPEN_PER_TENANT = Setting(
        "MAX_OPEN_PER_TENANT",
        None,
        "int",
        "Most requests, and most executions, that one tenant may have open; no limit if unset.",
        values.to_optional_count,
    )
    MAX_IN_DOUBT_PER_TENANT = Setting(
        "MAX_IN_DOUBT_PER_TENANT",
        None,
        "int",
        "Most requests, and most executions, of one tenant that may be in doubt; no limit if unset.",
        values.to_optional_count,
    )
    MAX_CALLS_PER_PROVIDER = Setting(
        "MAX_CALLS_PER_PROVIDER",
        None,
        "int or dict",
        "Most calls under way at one provider before background work starts no other; no limit if unset.",
        values.to_call_limits,
    )
    REAL_CALLS_IN_TESTS = Setting(
        "REAL_CALLS_IN_TESTS",
        False,
        "bool",
        "Whether effects call their providers in tests that say nothing about it.",
        values.to_flag,
    )
    SWEEP_BATCH = Setting("SWEEP_BATCH", 100, "int", "Most rows that one sweep takes at a time.", values.to_count)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} is read-only here; set EFFECTS in your settings or use override_settings.")


SETTINGS: Mapping[str, Setting[Any]] = {
    name: setting for name, setting in vars(Settings).items() if isinstance(setting, Setting)
}
"""Every key of `EFFECTS`, in the order of the reference page."""

settings = Settings()


def is_set(name: str) -> bool:
    """Return whether a setting has a value other than None; nothing is imported or converted."""
    return _configured().get(name) is not None


def unknown_keys() -> list[SettingProblem]:
    """Return a problem for each unknown key of `EFFECTS`, with the name that was probably meant.

    Raises:
        ImproperlyConfigured: If `EFFECTS` is not a dict.
    """
    result = []
    for key in _configured():
        if key not in SETTINGS:
            meant = values.closest(str(key).upper(), tuple(SETTINGS))
            hint = f"Did you mean {meant!r}?" if meant else f"The keys are {', '.join(SETTINGS)}."
            result.append(SettingProblem(str(key), f"EFFECTS has no setting {key!r}.", hint, unknown=True))
    return result


def problems() -> list[SettingProblem]:
    """Return all that is wrong with `EFFECTS`: unknown keys, wrong values, values at odds with each other."""
    try:
        result = unknown_keys()
    except ImproperlyConfigured as error:
        return [SettingProblem("EFFECTS", str(error))]
    result += [problem for setting in SETTINGS.values() for problem in _wrong_value(setting)]
    return result or _contradictions()


def _wrong_value(setting: Setting[Any]) -> list[SettingProblem]:
    try:
        setting.read()
    except ImproperlyConfigured as error:
        return [SettingProblem(setting.name, str(error))]
    return []


def _contradictions() -> list[SettingProblem]:
    result = []
    for shorter, longer, why in (
        ("REQUEST_LEASE", "HANDLER_MAX", "HANDLER_MAX would bound nothing"),
        ("ANSWER_RETENTION", "KEY_RETENTION", "the key of an answer would be forgotten before the answer"),
    ):
        if SETTINGS[shorter].read() > SETTINGS[longer].read():
            message = f"EFFECTS[{shorter!r}] is longer than EFFECTS[{longer!r}]: {why}."
            result.append(SettingProblem(shorter, message, f"Lower {shorter} or raise {longer}."))
    return result
