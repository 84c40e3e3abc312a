"""Find what keeps the journal's database from keeping its promises, as it is configured and as the server runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.utils.connection import ConnectionDoesNotExist

from effects.conf import settings
from effects.inspection.checks.messages import APP_LABEL, DISTRIBUTION, make_error, make_warning

__all__ = ["check_journal", "check_journal_options", "check_migrations", "check_server", "configured_journal"]

MINIMUM_SERVER = 14
"""Oldest PostgreSQL that is tested; 13 went out of support in November 2025."""

_OFF = frozenset({"off", "false", "no", "0"})


def check_journal(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E003: the journal's alias is not in `DATABASES`. E004: it is not a PostgreSQL."""
    try:
        alias = settings.DATABASE
    except ImproperlyConfigured:
        return []  # E002
    try:
        vendor = connections[alias].vendor
    except ConnectionDoesNotExist:
        known = ", ".join(sorted(connections))
        return [
            make_error(
                3,
                f"EFFECTS['DATABASE'] names {alias!r}, which is not in DATABASES.",
                f"Use one of {known}, or add a PostgreSQL database under that alias.",
            )
        ]
    except ImproperlyConfigured as error:
        return [make_error(4, f"The database {alias!r} cannot be used: {error}", "Install psycopg 3.")]
    if vendor != "postgresql":
        return [
            make_error(
                4,
                f"The journal's database {alias!r} is {vendor}, not PostgreSQL.",
                "The journal needs PostgreSQL. A project on another database can keep its own and give the "
                "journal a PostgreSQL beside it: EFFECTS = {'DATABASE': 'journal'}.",
            )
        ]
    return []


def check_journal_options(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E005: not READ COMMITTED. E006: asynchronous commit. E008: no autocommit. All as set in DATABASES."""
    connection = configured_journal()
    if connection is None:
        return []
    options = connection.settings_dict.get("OPTIONS", {})
    found: list[checks.CheckMessage] = []
    if not _asks_read_committed(options.get("isolation_level")):
        found.append(_wrong_isolation(connection, "its isolation_level option"))
    for name, value in _startup_parameters(str(options.get("options", ""))):
        if name == "synchronous_commit" and value in _OFF:
            found.append(_asynchronous(connection, "its options"))
        if name == "default_transaction_isolation" and value != "read committed":
            found.append(_wrong_isolation(connection, "its options"))
    if not connection.settings_dict.get("AUTOCOMMIT", True):
        found.append(
            make_error(
                8,
                f"The journal's database {connection.alias!r} has AUTOCOMMIT off.",
                "Take AUTOCOMMIT out of it: nothing would be proven committed before a provider is called.",
            )
        )
    return found


def check_server(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[checks.CheckMessage]:
    """E005, E006 as the server applies them. E007: it is too old. E010: it cannot be reached."""
    connection = configured_journal()
    if connection is None or connection.alias not in (databases or ()):
        return []
    try:
        with connection.cursor() as cursor:
            shown = {}
            for name in ("server_version_num", "synchronous_commit", "default_transaction_isolation"):
                cursor.execute(f"SHOW {name}")
                shown[name] = str(cursor.fetchone()[0]).lower()
    except DatabaseError as error:
        return [_unreachable(connection, error)]
    found: list[checks.CheckMessage] = []
    version = int(shown["server_version_num"]) // 10_000
    if version < MINIMUM_SERVER:
        found.append(
            make_error(
                7,
                f"The journal's database {connection.alias!r} is PostgreSQL {version}.",
                f"Upgrade it to PostgreSQL {MINIMUM_SERVER} or later.",
            )
        )
    if shown["synchronous_commit"] in _OFF:
        found.append(_asynchronous(connection, "the server, the database or the role"))
    explicit = "isolation_level" in connection.settings_dict.get("OPTIONS", {})
    if shown["default_transaction_isolation"] != "read committed" and not explicit:
        found.append(_wrong_isolation(connection, "the server, the database or the role"))
    return found


def check_migrations(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[checks.CheckMessage]:
    """E011: migrations of ours that are not applied. W002: applied ones that this release does not know."""
    connection = configured_journal()
    # `migrate` runs the database checks before it begins; they must not forbid what they ask for.
    if connection is None or connection.alias not in (databases or ()) or "migrate" in sys.argv[1:2]:
        return []
    try:
        loader = MigrationLoader(connection, ignore_no_migrations=True)
    except OperationalError:
        return []  # E010, of check_server
    except DatabaseError as error:
        return [_unreachable(connection, error)]
    known = {name for label, name in loader.disk_migrations if label == APP_LABEL}
    for migration in loader.disk_migrations.values():
        known.update(name for label, name in migration.replaces if label == APP_LABEL)
    applied = {name for label, name in loader.applied_migrations if label == APP_LABEL}
    needed = {name for label, name in loader.graph.nodes if label == APP_LABEL}
    found: list[checks.CheckMessage] = []
    if needed - applied:
        found.append(
            make_error(
                11,
                f"The journal's database {connection.alias!r} lacks {', '.join(sorted(needed - applied))}.",
                f"Run manage.py migrate {APP_LABEL} --database {connection.alias}.",
            )
        )
    if applied - known:
        found.append(
            make_warning(
                2,
                f"The journal's database {connection.alias!r} has {', '.join(sorted(applied - known))}, "
                "which this release does not know.",
                f"Deploy the release of {DISTRIBUTION} that the database was migrated for.",
            )
        )
    return found


def configured_journal() -> BaseDatabaseWrapper | None:
    """Return the journal's connection, or None where `check_journal` complains already."""
    if check_journal():
        return None
    try:
        return connections[settings.DATABASE]
    except ImproperlyConfigured:
        return None


def _asks_read_committed(level: object) -> bool:
    if level is None:
        return True
    # The numbers of the levels differ between psycopg 2 and 3; Django imports the right ones.
    from django.db.backends.postgresql.psycopg_any import IsolationLevel  # noqa: PLC0415 - needs a driver

    return level == IsolationLevel.READ_COMMITTED


_PARAMETER = re.compile(r"(?:-c\s*|--)(?P<name>[A-Za-z_.-]+)=(?P<value>(?:\\.|[^\s\\])*)")


def _startup_parameters(options: str) -> Iterator[tuple[str, str]]:
    r"""Read `-c name=value` and `--name=value` as the server does; a space in a value is written `\ `."""
    for match in _PARAMETER.finditer(options):
        value = re.sub(r"\\(.)", r"\1", match["value"]).strip("'\"")
        yield match["name"].lower().replace("-", "_"), value.lower()


def _wrong_isolation(connection: BaseDatabaseWrapper, where: str) -> checks.Error:
    return make_error(
        5,
        f"The journal's database {connection.alias!r} does not run at READ COMMITTED, by {where}.",
        "Use READ COMMITTED for this alias, and another alias for code that needs another level.",
    )


def _asynchronous(connection: BaseDatabaseWrapper, where: str) -> checks.Error:
    return make_error(
        6,
        f"The journal's database {connection.alias!r} has synchronous_commit off, by {where}.",
        "Turn it on for this alias: a crash of the server would forget what was sent.",
    )


def _unreachable(connection: BaseDatabaseWrapper, error: Exception) -> checks.Error:
    first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return make_error(
        10,
        f"The journal's database {connection.alias!r} cannot be reached: {first_line}",
        "Start it, or correct its entry in DATABASES.",
    )
