"""The `EFFECTS` setting."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from effects.conf import SETTINGS, SettingProblem, problems, unknown_keys
from effects.conf import settings as effects_settings

HOUR = timedelta(hours=1)


def give_tenant(request: Any) -> str:
    return "acme"


HERE = __name__
DURATIONS = {
    "REQUEST_LEASE": timedelta(seconds=60),
    "HANDLER_MAX": timedelta(minutes=10),
    "LEASE_GRACE": timedelta(seconds=5),
    "ANSWER_RETENTION": timedelta(hours=72),
    "KEY_RETENTION": timedelta(days=30),
}


def test_defaults(settings: Any) -> None:
    """Without EFFECTS every setting has its documented default."""
    settings.EFFECTS = {}
    durations = {name: getattr(effects_settings, name) for name in DURATIONS}
    assert durations == DURATIONS
    assert effects_settings.DATABASE == "default"
    assert effects_settings.MAX_ANSWER_BYTES == effects_settings.MAX_FINGERPRINT_BYTES == 1024 * 1024
    assert effects_settings.SWEEP_BATCH == 100
    assert effects_settings.DISPATCH == "none"
    assert effects_settings.RISK_RULES == {}
    assert effects_settings.REPLAY_CHECK is None
    assert effects_settings.REDACTOR is None
    assert effects_settings.EXECUTION_RETENTION is None
    assert "Set-Cookie" not in effects_settings.REPLAY_HEADERS
    assert problems() == []


def test_every_setting_is_described() -> None:
    """Name, type and a sentence of each setting stand in the table, which cannot be changed."""
    for name, setting in SETTINGS.items():
        assert setting.name == name
        assert setting.type
        assert setting.doc.endswith(".")
        with pytest.raises(dataclasses.FrozenInstanceError):
            setting.name = "x"  # type: ignore[misc]


def test_read_at_access(settings: Any) -> None:
    """A change of the settings holds at once; the accessor itself is read-only."""
    settings.EFFECTS = {"REQUEST_LEASE": HOUR}
    assert effects_settings.REQUEST_LEASE == HOUR
    settings.EFFECTS = {"REQUEST_LEASE": 2 * HOUR}
    assert effects_settings.REQUEST_LEASE == 2 * HOUR
    with pytest.raises(AttributeError, match="override_settings"):
        effects_settings.REQUEST_LEASE = HOUR  # type: ignore[misc,assignment]


def test_missing_setting_is_empty(settings: Any) -> None:
    """A project without EFFECTS gets the defaults."""
    if hasattr(settings, "EFFECTS"):
        del settings.EFFECTS
    assert effects_settings.DATABASE == "default"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("REQUEST_LEASE", 60, "timedelta(seconds=60)"),
        ("REQUEST_LEASE", timedelta(0), "positive"),
        ("MAX_ANSWER_BYTES", "1 MiB", "integer"),
        ("SWEEP_BATCH", True, "integer"),
        ("SWEEP_BATCH", 0, "at least 1"),
        ("DATABASE", "", "non-empty"),
        ("TENANT", "no.such.module", "cannot be imported"),
        ("TENANT", "nodots", "cannot be imported"),
        ("SUBJECT", 5, "callable"),
        ("REPLAY_HEADERS", "Content-Type", "tuple"),
        ("REPLAY_HEADERS", ("Set-Cookie",), "Set-Cookie"),
        ("REPLAY_HEADERS", ("Access-Control-Allow-Origin",), "one exchange"),
        ("KEY_HEADER", "X_Idempotency_Key", "hyphens"),
        ("KEY_HEADER", None, "hyphens"),
        ("KEY_HEADER", "Authorization", "meaning of its own"),
        ("KEY_HEADER", "X-Request-ID", "may not repeat"),
        ("KEY_HEADER", "Content-Digest", "meaning of its own"),
        ("RISK_RULES", [], "dict"),
        ("RISK_RULES", {"high": "boss"}, "ApprovalRule"),
        ("DISPATCH", "selery", "did you mean 'celery'"),
        ("DISPATCH", None, "callable"),
        ("REDACTOR", "nodots", "cannot be imported"),
        ("REDACTOR", 5, "callable"),
        ("EXECUTION_RETENTION", 400, "timedelta(seconds=60)"),
        ("EXECUTION_RETENTION", timedelta(0), "positive"),
        ("KEY_RETENTION", timedelta.max, "100 years"),
        ("MAX_CALLS_PER_PROVIDER", 0, "at least 1"),
        ("MAX_CALLS_PER_PROVIDER", "10", "integer"),
        ("MAX_CALLS_PER_PROVIDER", {"stripe": 0}, "at least 1 for 'stripe'"),
        ("MAX_CALLS_PER_PROVIDER", {"stripe": True}, "integer of at least 1 for 'stripe'"),
        ("MAX_CALLS_PER_PROVIDER", {5: 10}, "the provider of an effect"),
    ],
)
def test_wrong_values_name_setting_and_fix(settings: Any, name: str, value: Any, says: str) -> None:
    """Reading a wrong value raises, and `problems` reports the same message."""
    settings.EFFECTS = {name: value}
    with pytest.raises(ImproperlyConfigured) as caught:
        getattr(effects_settings, name)
    assert f"EFFECTS['{name}']" in str(caught.value)
    assert says in str(caught.value)
    assert problems() == [SettingProblem(name, str(caught.value))]


def test_callables_by_path_or_value(settings: Any) -> None:
    """A dotted path and the object itself mean the same."""
    for tenant in (give_tenant, f"{HERE}.give_tenant"):
        settings.EFFECTS = {"TENANT": tenant, "DISPATCH": f"{HERE}.give_tenant"}
        assert effects_settings.TENANT(None) == "acme"  # type: ignore[arg-type]
        assert effects_settings.DISPATCH is give_tenant


@pytest.mark.parametrize(
    ("user", "subject"),
    [
        (SimpleNamespace(is_authenticated=True, pk=7), "user:7"),
        (SimpleNamespace(is_authenticated=False, pk=None), None),
        (SimpleNamespace(is_authenticated=True, pk=None), None),
        (None, None),
    ],
)
def test_default_identity(settings: Any, user: Any, subject: str | None) -> None:
    """The subject is the authenticated user; nobody else has one; there is one tenant."""
    settings.EFFECTS = {}
    request: Any = SimpleNamespace(user=user)
    assert effects_settings.SUBJECT(request) == subject
    assert effects_settings.TENANT(request) == ""
    assert isinstance(effects_settings.TENANT_CONTEXT("x"), nullcontext)


@pytest.mark.parametrize(
    ("key", "meant"), [("REQUEST_LEASES", "REQUEST_LEASE"), ("database", "DATABASE"), ("TENNANT", "TENANT")]
)
def test_typos_are_named(settings: Any, key: str, meant: str) -> None:
    """An unknown key is a problem that says which one was meant."""
    settings.EFFECTS = {key: "x"}
    (problem,) = unknown_keys()
    assert problem.unknown
    assert problem.name == key
    assert meant in problem.hint
    assert problems() == [problem]


def test_no_dict(settings: Any) -> None:
    """EFFECTS that is no dict is one problem, not an AttributeError."""
    settings.EFFECTS = ["DATABASE"]
    (problem,) = problems()
    assert "dict" in problem.message
    with pytest.raises(ImproperlyConfigured):
        _ = effects_settings.DATABASE


@pytest.mark.parametrize(
    "value",
    [
        {"ANSWER_RETENTION": timedelta(days=31)},
        {"REQUEST_LEASE": timedelta(minutes=11)},
    ],
)
def test_contradictions(settings: Any, value: dict[str, Any]) -> None:
    """A key must outlive its answer, and a handler's maximum its lease."""
    settings.EFFECTS = value
    (problem,) = problems()
    assert problem.name in value
