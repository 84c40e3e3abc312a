"""Settings of the test suite: the project's own, made faster and quieter."""

from project.settings import *  # noqa: F403
from project.settings import DATABASES, INSTALLED_APPS, LOGGING

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DATABASES["default"]["TEST"] = {"NAME": "test_effects"}
LOGGING["root"] = {"handlers": ["console"], "level": "WARNING"}
EFFECTS = {"DISPATCH": "none"}
INSTALLED_APPS = [*INSTALLED_APPS, "effects.contrib.mail"]
# from Django 6.1 on; earlier ones do not look at it
MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
