"""Settings of the tests of mutations: each lane has a database of its own, which is dropped with it."""

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

DATABASES["default"]["TEST"] = {"NAME": DATABASES["default"]["NAME"]}
