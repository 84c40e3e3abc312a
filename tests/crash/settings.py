"""Settings of the process that the crash tests fork from; `DATABASE_URL` names the test database."""

from tests.settings import *  # noqa: F403

ROOT_URLCONF = "tests.crash.views"
