"""How hints reach the workers of `django.tasks` (Django 6.0 and newer)."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import ImproperlyConfigured

from effects.runtime import background

try:
    from django.tasks import task
except ImportError as error:
    raise ImproperlyConfigured(
        "EFFECTS['DISPATCH'] = 'django_tasks' needs Django 6.0; use 'celery', or 'none' with manage.py effects_sweep."
    ) from error

__all__ = ["publish", "run_execution"]


@task
def run_execution(execution_id: str) -> None:
    """Send one execution if it is pending, due and licensed."""
    background.run(UUID(execution_id))


def publish(execution_id: str) -> None:
    """Publish the hint that an execution is due to be sent."""
    run_execution.enqueue(execution_id)
