"""Find what would break later: Django system checks under the tag `effects`.

Ids are frozen. Those that ask the server are also tagged `database` and run with `manage.py check
--database …` and before `migrate`. Checks of effects and their rules live with the registry.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from django.apps import AppConfig, apps
from django.contrib.auth import get_permission_codename
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.utils.connection import ConnectionDoesNotExist
from django.utils.module_loading import import_string

from effects._commits import is_beside
from effects.conf import DOCS, problems, settings
from effects.effect import registered
from effects.operations import operations
from effects.types import CALL, GROUP, ApprovalRule, Risk

__all__ = [
    "TAG",
    "check_journal",
    "check_journal_options",
    "check_migrations",
    "check_package",
    "check_risk_rules",
    "check_server",
    "check_settings",
    "check_views_beside",
    "link",
    "make_error",
    "make_warning",
    "register_checks",
]

TAG = "effects"
APP_LABEL = "effects"
DISTRIBUTION = "django-effects"
MINIMUM_SERVER = 14
"""Oldest PostgreSQL that is tested; 13 went out of support in November 2025."""

_OFF = frozenset({"off", "false", "no", "0"})


def register_checks() -> None:
    """Register all checks; called once by the app's `ready`."""
    for check in (
        check_settings, check_package, check_journal, check_journal_options, check_views_beside, check_risk_rules,
    ):  # fmt: skip
        checks.register(check, TAG)
    # not at the head: they need what stands above this module, and their messages are made here
    from effects import project_checks as projects  # noqa: PLC0415
    from effects import view_checks as views  # noqa: PLC0415

    for check in (
        views.check_transactions_of_views, views.check_effects_of_views, views.check_status_url, views.check_cors,
        views.check_signing_secrets,
        projects.check_time_zones, projects.check_dispatch, projects.check_names_in_effects,
        projects.check_limited_providers,
    ):  # fmt: skip
        checks.register(check, TAG)
    for check in (check_server, check_migrations):
        checks.register(check, TAG, checks.Tags.database)


def make_error(number: int, message: str, hint: str) -> checks.Error:
    """Return an error with its frozen id, and a hint that ends with a link to the page of checks."""
    return checks.Error(message, hint=f"{hint} {link(f'E{number:03}')}", id=f"{TAG}.E{number:03}")


def make_warning(number: int, message: str, hint: str) -> checks.Warning:
    """Return a warning, made as an error is."""
    return checks.Warning(message, hint=f"{hint} {link(f'W{number:03}')}", id=f"{TAG}.W{number:03}")


def link(name: str) -> str:
    """Return where the page of checks explains an id."""
    return f"See {DOCS}/reference/checks/#effects-{name.lower()}"


def check_settings(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E001: a key of `EFFECTS` that is not one of ours. E002: a value that cannot be used."""
    return [
        make_error(1 if problem.unknown else 2, problem.message, problem.hint or "Change it in your settings.")
        for problem in problems()
    ]


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
    connection = _journal()
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


def check_views_beside(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E012: a transactional view, whose rows cannot commit with a journal in another database."""
    try:
        if not is_beside():
            return []
    except ImproperlyConfigured:
        return []  # E002
    return [
        make_error(
            12,
            f"The view {view.name!r} is transactional, and the journal's database {settings.DATABASE!r} is not that of "
            "its rows.",
            'Make it mode="journaled", or keep the journal in the default database.',
        )
        for view in operations().values()
        if view.mode == "transactional"
    ]


def check_server(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[checks.CheckMessage]:
    """E005, E006 as the server applies them. E007: it is too old. E010: it cannot be reached."""
    connection = _journal()
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
    connection = _journal()
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


def check_risk_rules(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E015: a key of `RISK_RULES` that tightens nothing. E016: no such function. W006: no such permission."""
    try:
        rules = settings.RISK_RULES
    except ImproperlyConfigured:
        return []  # E002
    known = {str(risk) for risk in Risk} | {effect.operation for effect in registered()}
    found: list[checks.CheckMessage] = [
        make_error(
            15,
            f"EFFECTS['RISK_RULES'] has a rule for {key!r}, which is neither a risk nor a registered operation.",
            f"It tightens nothing. The keys are {', '.join(sorted(known))}.",
        )
        for key in rules
        if key not in known
    ]
    for key, rule in rules.items():
        found += _check_approvers(f"EFFECTS['RISK_RULES'][{key!r}]", rule)
    return found


def _check_approvers(where: str, rule: ApprovalRule) -> Iterator[checks.CheckMessage]:
    declared = {
        f"{model._meta.app_label}.{codename}"
        for model in apps.get_models()
        for codename in (
            *(get_permission_codename(action, model._meta) for action in model._meta.default_permissions),
            *(codename for codename, _name in model._meta.permissions),
        )
    }
    for path in rule.functions:
        try:
            wrong = "" if callable(import_string(path)) else "is no function"
        except ImportError as error:
            wrong = f"cannot be imported ({error})"
        if wrong:
            yield make_error(
                16, f"{where} asks {path!r}, which {wrong}.", "Name a function that takes a Context and returns users."
            )
    for term in rule.terms:
        if not term.startswith((GROUP, CALL)) and term not in declared:
            yield make_warning(
                6,
                f"{where} asks for the permission {term!r}, which no installed model declares.",
                "Correct it, unless you create this permission yourself.",
            )


def check_package(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E009: another package is taken for `effects`. W001: another one is on the path behind it."""
    ours = Path(__file__).resolve().parent
    found: list[checks.CheckMessage] = []
    loaded = sys.modules.get("effects")
    if ours not in _places(getattr(loaded, "__path__", ())):
        where = getattr(loaded, "__file__", None) or "nowhere"
        found.append(_foreign(f"`import effects` gives the module at {where}, not {DISTRIBUTION}."))
    found += [
        _foreign(f"The installed app {config.name!r} at {config.path} is not {DISTRIBUTION}.")
        for config in apps.get_app_configs()
        if _claims_our_name(config) and Path(config.path).resolve() != ours
    ]
    found += [
        make_warning(
            1,
            f"There is another module named effects, at {other}.",
            f"Rename or uninstall it: a process's directory decides which one it imports. Ours is {ours}.",
        )
        for other in _others_on_path(ours)
    ]
    return found


def _foreign(message: str) -> checks.Error:
    return make_error(
        9,
        message,
        f"Rename or uninstall the other one, then install {DISTRIBUTION} again. In an app's own effects.py, "
        "write `import effects`, never `from . import effects`.",
    )


def _claims_our_name(config: AppConfig) -> bool:
    return config.name == "effects" or config.label == APP_LABEL


def _places(paths: Iterable[str]) -> set[Path]:
    return {Path(path).resolve() for path in paths}


def _others_on_path(ours: Path) -> list[Path]:
    others: dict[Path, None] = {}
    for entry in sys.path:
        spec = PathFinder.find_spec("effects", [entry])
        # A directory without __init__.py has no origin and never wins over a package.
        if spec is not None and spec.origin is not None and Path(spec.origin).resolve().parent != ours:
            others[Path(spec.origin).resolve()] = None
    return list(others)


def _journal() -> BaseDatabaseWrapper | None:
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
