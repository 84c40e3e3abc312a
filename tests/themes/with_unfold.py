"""Settings of the test suite, with the theme unfold in front of Django's admin."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = ["unfold", *INSTALLED_APPS]
ROOT_URLCONF = "tests.themes.urls"
# runserver serves static files then
DEBUG = True
