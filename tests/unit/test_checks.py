"""The system checks."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.core import checks as django_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection, connections
from django.db.migrations.recorder import MigrationRecorder

import effects
from effects.conf import DOCS
from effects.inspection import checks as ours
from effects.inspection.checks import journal, package, projects, recorded, rules, views
from effects.inspection.checks.rules import check_descriptions, check_risk_rules
from tests.core.declared import Plain
from tests.httpx.test_story import BookTransfer

POSTGRES = {"ENGINE": "django.db.backends.postgresql", "NAME": "journal"}


def ids(messages: list[Any]) -> list[str]:
    """The ids of messages, each of which must have a hint with a link."""
    for message in messages:
        assert f"{DOCS}/reference/checks/#" in message.hint
    return [message.id for message in messages]


@pytest.fixture
def put_journal(settings: Any) -> Iterator[Any]:
    """A function that puts a database into DATABASES under the alias `journal` and makes it the journal's."""

    def configure(**values: Any) -> None:
        connections.databases["journal"] = connections.configure_settings(
            {"default": {}, "journal": {**POSTGRES, **values}}
        )["journal"]
        settings.EFFECTS = {"DATABASE": "journal"}

    yield configure
    if "journal" in connections.databases:
        if hasattr(connections._connections, "journal"):
            del connections["journal"]
        del connections.databases["journal"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, []),
        ({"DATABSE": "x"}, ["effects.E001"]),
        ({"REQUEST_LEASE": 60}, ["effects.E002"]),
        ({"DATABSE": "x", "SWEEP_BATCH": 0}, ["effects.E001", "effects.E002"]),
        ("x", ["effects.E002"]),
    ],
)
def test_settings(settings: Any, value: Any, expected: list[str]) -> None:
    """Typos and wrong values of EFFECTS are errors."""
    settings.EFFECTS = value
    assert ids(projects.check_settings()) == expected


def test_missing_alias(settings: Any) -> None:
    """A journal in a database that is not configured is an error that names those that are."""
    settings.EFFECTS = {"DATABASE": "nowhere"}
    (message,) = journal.check_journal()
    assert message.id == "effects.E003"
    assert "default" in str(message.hint)
    assert journal.check_journal_options() == []
    assert journal.check_server(databases=["nowhere"]) == []


def test_other_vendor(put_journal: Any) -> None:
    """A journal on SQLite is refused in one sentence that shows the way out."""
    put_journal(ENGINE="django.db.backends.sqlite3", NAME=":memory:")
    (message,) = journal.check_journal()
    assert message.id == "effects.E004"
    assert "PostgreSQL" in message.msg
    assert "DATABASE" in str(message.hint)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, []),
        ({"OPTIONS": {"isolation_level": "read committed"}}, []),
        ({"OPTIONS": {"isolation_level": "serializable"}}, ["effects.E005"]),
        ({"OPTIONS": {"options": "-c default_transaction_isolation=serializable"}}, ["effects.E005"]),
        ({"OPTIONS": {"options": r"-c default_transaction_isolation=read\ committed"}}, []),
        ({"OPTIONS": {"options": "-c synchronous_commit=off"}}, ["effects.E006"]),
        ({"OPTIONS": {"options": "-c search_path=a -csynchronous_commit=OFF"}}, ["effects.E006"]),
        ({"OPTIONS": {"options": "--synchronous-commit=off"}}, ["effects.E006"]),
        ({"OPTIONS": {"options": "-c synchronous_commit=remote_apply"}}, []),
        ({"AUTOCOMMIT": False}, ["effects.E008"]),
    ],
)
def test_options(put_journal: Any, values: dict[str, Any], expected: list[str]) -> None:
    """Options that break the promises are found without a connection."""
    if values.get("OPTIONS", {}).get("isolation_level"):
        from psycopg import IsolationLevel

        level = values["OPTIONS"]["isolation_level"].replace(" ", "_").upper()
        values = {"OPTIONS": {"isolation_level": IsolationLevel[level]}}
    put_journal(**values)
    assert journal.check_journal() == []
    assert ids(journal.check_journal_options()) == expected


@pytest.mark.django_db
def test_server_is_right(settings: Any) -> None:
    """The database of the tests passes; a database that was not asked for is left alone."""
    settings.EFFECTS = {}
    assert journal.check_server(databases=["default"]) == []
    assert journal.check_server(databases=None) == []
    assert journal.check_server() == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SET LOCAL synchronous_commit = off", "effects.E006"),
        ("SET LOCAL default_transaction_isolation = 'repeatable read'", "effects.E005"),
    ],
)
def test_server_side_defaults(settings: Any, statement: str, expected: str) -> None:
    """A default of server, database or role counts as much as an option."""
    settings.EFFECTS = {}
    with connection.cursor() as cursor:
        cursor.execute(statement)
    assert ids(journal.check_server(databases=["default"])) == [expected]


@pytest.mark.django_db
def test_old_server(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server older than the oldest supported one is an error."""
    settings.EFFECTS = {}
    monkeypatch.setattr(journal, "MINIMUM_SERVER", 1000)
    assert ids(journal.check_server(databases=["default"])) == ["effects.E007"]


def test_unreachable_server(put_journal: Any, django_db_blocker: Any) -> None:
    """A server that does not answer is one message without a traceback."""
    put_journal(HOST="127.0.0.1", PORT="1", OPTIONS={"connect_timeout": 2})
    with django_db_blocker.unblock():
        assert ids(journal.check_server(databases=["journal"])) == ["effects.E010"]
        assert ids(journal.check_migrations(databases=["journal"])) == []  # it is said once


@pytest.mark.django_db
def test_migrations(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A half-migrated database says what to run, except to `migrate`; one that is ahead is a warning."""
    settings.EFFECTS = {}
    monkeypatch.setattr(sys, "argv", ["manage.py", "check"])
    assert journal.check_migrations(databases=["default"]) == []
    recorder = MigrationRecorder(connection)
    recorder.record_applied("effects", "9999_future")
    assert ids(journal.check_migrations(databases=["default"])) == ["effects.W002"]
    recorder.record_unapplied("effects", "9999_future")
    first, *_ = sorted(name for label, name in recorder.applied_migrations() if label == "effects")
    recorder.record_unapplied("effects", first)
    (message,) = journal.check_migrations(databases=["default"])
    assert message.id == "effects.E011"
    assert first in message.msg
    assert "manage.py migrate effects" in str(message.hint)
    monkeypatch.setattr(sys, "argv", ["manage.py", "migrate"])
    assert journal.check_migrations(databases=["default"]) == []


def test_our_package_is_ours() -> None:
    """An ordinary installation passes."""
    assert [message for message in package.check_package() if message.level >= django_checks.ERROR] == []


def test_foreign_package_in_place_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that took the name `effects` is an error that says where it is."""
    foreign = ModuleType("effects")
    foreign.__file__ = "/srv/shop/effects.py"
    monkeypatch.setitem(sys.modules, "effects", foreign)
    messages = package.check_package()
    assert "effects.E009" in ids(messages)
    assert "/srv/shop/effects.py" in messages[0].msg


def test_foreign_app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed app that claims our name or label is an error."""
    foreign = SimpleNamespace(name="shop.effects", label="effects", path=str(tmp_path))
    monkeypatch.setattr(package.apps, "get_app_configs", lambda: [foreign])
    assert "effects.E009" in ids(package.check_package())


def test_foreign_package_behind_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another `effects` on the path is a warning: in another directory it would win."""
    (tmp_path / "effects.py").write_text("")
    assert importlib.util.find_spec("effects")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    messages = package.check_package()
    assert "effects.W001" in ids(messages)
    assert any(str(tmp_path) in message.msg for message in messages)


def test_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    """All checks have our tag; those that need a connection wait for `--database`."""
    registry = django_checks.registry.CheckRegistry()
    monkeypatch.setattr(ours.checks, "register", registry.register)
    ours.register_checks()
    assert {check.__name__ for check in registry.registered_checks if "database" in check.tags} == {
        "check_server",
        "check_migrations",
        "check_journal_id",
        "check_standstill",
        "check_permissions_asked",
        "check_rows",
    }
    assert all("effects" in check.tags for check in registry.registered_checks)
    assert {check.__name__ for check in registry.registered_checks} == {
        name
        for module in (journal, package, projects, recorded, rules, views)
        for name in module.__all__
        if name.startswith("check_")
    }


def test_a_sweep_of_a_half_migrated_database_stops_with_the_command_to_run(settings: Any, db: Any) -> None:
    """One message, before anything is swept."""
    settings.EFFECTS = {}
    recorder = MigrationRecorder(connection)
    for name in [name for label, name in recorder.applied_migrations() if label == "effects"]:
        recorder.record_unapplied("effects", name)
    with pytest.raises(SystemCheckError, match=r"manage\.py migrate effects --database default"):
        call_command("effects_sweep", skip_checks=False)


def test_local_times_are_refused(settings: Any) -> None:
    """An hour comes twice when summer time ends, so that nothing may be due by the wall's clock."""
    assert projects.check_time_zones() == []
    settings.USE_TZ = False
    assert ids(projects.check_time_zones()) == ["effects.E017"]


@pytest.mark.parametrize(
    ("dispatch", "missing", "expected"),
    [
        ("celery", "celery", ["effects.E018"]),
        ("django_tasks", "django.tasks", ["effects.E018"]),
        ("celery", "django.tasks", []),
        ("none", "celery", []),
        (print, "celery", []),
        (5, "celery", []),
    ],
)
def test_a_queue_that_is_not_installed(
    settings: Any, monkeypatch: pytest.MonkeyPatch, dispatch: Any, missing: str, expected: list[str]
) -> None:
    """Its hints would fail one by one, in the log."""
    settings.EFFECTS = {"DISPATCH": dispatch}
    monkeypatch.setattr(projects, "find_spec", lambda name: None if name == missing else object())
    assert ids(projects.check_dispatch()) == expected


@pytest.mark.parametrize(
    ("limits", "hints"),
    [
        (5, []),
        ({"*": 5, "bank/acct_test": 5}, []),
        ({"bank/acct_tset": 5}, ["Did you mean 'bank/acct_test'?"]),
        ({"zzz": 5}, ["Take it out."]),
        ({"bank/acct_test": 0}, []),
        (None, []),
    ],
)
def test_a_limit_for_a_provider_that_nobody_calls(settings: Any, limits: Any, hints: list[str]) -> None:
    """A misspelt provider would be called without limit; a wrong value is another check's."""
    settings.EFFECTS = {"MAX_CALLS_PER_PROVIDER": limits}
    messages = projects.check_limited_providers()
    assert ids(messages) == ["effects.W008"] * len(hints)
    assert [str(message.hint).startswith(hint) for message, hint in zip(messages, hints, strict=True)] == [True] * len(
        hints
    )


@pytest.mark.parametrize(
    ("attributes", "rules", "why"),
    [
        ({}, {}, ""),
        ({"approval": lambda self, context: None}, {}, "has approval()"),
        ({"proposable_by": "auth.add_group"}, {}, "may be proposed (proposable_by)"),
        ({}, {"bank.plain": effects.ApprovalRule("auth.add_group")}, "is under EFFECTS['RISK_RULES']['bank.plain']"),
        ({}, {"high": effects.ApprovalRule("auth.add_group")}, "is under EFFECTS['RISK_RULES']['high']"),
        ({"aliases": ("bank.old",)}, {"bank.old": effects.ApprovalRule("auth.add_group")}, "['bank.old']"),
        ({"approval": lambda self, context: None, "describe": lambda self, context: None}, {}, ""),
        ({"describe": lambda self, context: None}, {"high": effects.ApprovalRule("auth.add_group")}, ""),
    ],
)
def test_an_effect_that_people_would_approve_unseen(
    settings: Any, monkeypatch: pytest.MonkeyPatch, attributes: dict[str, Any], rules: Any, why: str
) -> None:
    """Whatever makes people approve it: its own approval, a proposal, a rule for its risk, its operation, an alias."""
    settings.EFFECTS = {"RISK_RULES": rules}
    for name, value in {"describe": effects.Effect.describe, **attributes}.items():
        monkeypatch.setattr(Plain, name, value, raising=False)
    messages = [each for each in check_descriptions() if "Plain" in each.msg]
    assert ids(messages) == (["effects.W009"] if why else [])
    assert all(why in each.msg for each in messages)


@pytest.mark.parametrize("name", ["aprovals", "request_timout", "setled", "look_up"])
def test_a_misspelt_name_in_an_effect(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """With a misspelt `approval` nobody is asked; a name of the project's own is none of our business."""
    monkeypatch.setattr(Plain, name, None, raising=False)
    monkeypatch.setattr(Plain, "bank_url", "https://bank.example", raising=False)
    # other tests' effects are registered in this process, too
    messages = [each for each in projects.check_names_in_effects() if "Plain has" in each.msg]
    assert ids(messages) == ["effects.W007"]
    assert f"Plain has {name!r}" in messages[0].msg


def test_a_misspelt_name_of_a_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connector's own attributes are known by name as well."""
    monkeypatch.setattr(BookTransfer, "prooves", {422: effects.Doubt}, raising=False)
    messages = [each for each in projects.check_names_in_effects() if "BookTransfer has" in each.msg]
    assert ids(messages) == ["effects.W007"]
    assert "'proves' is what is read" in messages[0].msg


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"high": "effects.approve_execution", "payments.refund": "group:Finance"}, []),
        ({effects.Risk.LOW: "effects.view_execution & auth.add_user"}, []),
        ({"hihg": "effects.approve_execution"}, ["effects.E015"]),
        ({"payments.gone": "effects.approve_execution"}, ["effects.E015"]),
        ({"high": "call:no.such.module"}, ["effects.E016"]),
        ({"high": "call:effects.vocabulary.states.APPROVAL_LIVE"}, ["effects.E016"]),
        ({"high": "call:effects.people.approvers.in_words"}, []),
        ({"high": "shop.aprove_refund"}, ["effects.W006"]),
    ],
)
def test_risk_rules(settings: Any, rules: dict[Any, str], expected: list[str]) -> None:
    """A rule that tightens nothing, or that asks nobody, is found before it is needed."""
    settings.EFFECTS = {"RISK_RULES": {key: effects.ApprovalRule(approvers) for key, approvers in rules.items()}}
    assert ids(check_risk_rules()) == expected


def test_unreadable_risk_rules_are_the_settings_problem(settings: Any) -> None:
    """They are reported once."""
    settings.EFFECTS = {"RISK_RULES": 5}
    assert check_risk_rules() == []
