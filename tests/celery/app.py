"""A Celery app as small as they come: what a project writes, and nothing else."""

from __future__ import annotations

import os
from datetime import timedelta

from celery import Celery

from effects.celery import beat_schedule

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.celery.settings")
often = timedelta(seconds=0.2)

app = Celery("tests")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.conf.beat_schedule = beat_schedule(run_due=often, look_up_due=often)
