"""What `celery -A project.celery worker` and `beat` run."""

import os
from datetime import timedelta

from celery import Celery

from effects.celery import EVERY, beat_schedule

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("project")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

#: One period for all sweeps, for those in a hurry: the demo is.
_seconds = os.environ.get("EFFECTS_SWEEP_SECONDS")
app.conf.beat_schedule = beat_schedule(**(dict.fromkeys(EVERY, timedelta(seconds=float(_seconds))) if _seconds else {}))
