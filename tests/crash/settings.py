"""Settings of the process that the crash tests fork from, and nothing that they do not use.

`DATABASE_URL` names the test database.
"""

from tests.settings import *  # noqa: F403

INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "effects"]
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "tests.crash.views"
