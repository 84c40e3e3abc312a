"""Settings of the soak's processes: the example project's, with a journal whose times are short."""

from datetime import timedelta

from project.settings import *  # noqa: F403
from project.settings import DATABASES, INSTALLED_APPS, LOGGING

INSTALLED_APPS = [*INSTALLED_APPS, "benchmarks"]
LOGGING["root"] = {"handlers": ["console"], "level": "WARNING"}
# as a web server keeps its connections, so that one that is cut is met in the middle of something
DATABASES["default"]["CONN_MAX_AGE"] = 60
EFFECTS = {"DISPATCH": "none", "LEASE_GRACE": timedelta(seconds=0.3)}
