"""Settings of the worker and the beat that the tests start."""

from tests.settings import *  # noqa: F403

INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "effects", "tests.celery"]
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "tests.celery.urls"
EFFECTS = {"DISPATCH": "celery"}
