"""Find what would break later: Django system checks under the tag `effects`. Their ids are frozen.

Those that ask the server are also tagged `database` and run with `manage.py check --database …` and before `migrate`.
"""

from __future__ import annotations

from django.core import checks

from effects.inspection.checks import journal, package, projects, recorded, rules, views
from effects.inspection.checks.messages import TAG

__all__ = ["register_checks"]

CHECKS = (
    projects.check_settings,
    projects.check_names_of_settings,
    package.check_package,
    journal.check_journal,
    journal.check_journal_options,
    rules.check_risk_rules,
    rules.check_descriptions,
    rules.check_proposable_by,
    views.check_views_beside,
    views.check_transactions_of_views,
    views.check_paths_to_protection,
    views.check_effects_of_views,
    views.check_status_url,
    views.check_cors,
    views.check_signing_secrets,
    projects.check_time_zones,
    projects.check_dispatch,
    projects.check_names_in_effects,
    projects.check_limited_providers,
)
DATABASE_CHECKS = (
    journal.check_server,
    journal.check_migrations,
    recorded.check_journal_id,
    recorded.check_rows,
    recorded.check_standstill,
    rules.check_permissions_asked,
)


def register_checks() -> None:
    """Register all checks; called once by the app's `ready`."""
    for check in CHECKS:
        checks.register(check, TAG)
    for check in DATABASE_CHECKS:
        checks.register(check, TAG, checks.Tags.database)
