"""Settings of the example project: a small shop on django-effects.

Everything that differs between machines comes from the environment. Importing this module starts nothing and
connects to nothing.
"""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent


def database(url: str) -> dict[str, Any]:
    """Return the settings of the database at a URL.

    Raises:
        ImproperlyConfigured: It is no PostgreSQL.
    """
    scheme = url.partition(":")[0]
    if scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(
            f"DATABASE_URL begins with {scheme!r}, and this works on PostgreSQL alone. "
            "Set it to a PostgreSQL from version 14 on, for example postgresql://user:password@host:5432/effects."
        )
    parsed = cast("dict[str, Any]", dj_database_url.parse(url))
    # An unknown server is told apart from a slow one before a person loses patience.
    parsed.setdefault("OPTIONS", {}).setdefault("connect_timeout", 10)
    return parsed


SECRET_KEY = os.environ.get("SECRET_KEY", "for-development-and-the-demo-only")
DEBUG = os.environ.get("DEBUG", "") == "1"
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "localhost,127.0.0.1,testserver").split(",")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "effects",
    "effects_admin",
    "project.payments",
    "project.demo",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"

DATABASES = {"default": database(os.environ.get("DATABASE_URL") or "postgresql://localhost/effects")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

PASSWORD_HASHERS = [os.environ.get("PASSWORD_HASHER", "django.contrib.auth.hashers.PBKDF2PasswordHasher")]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True
STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework.authentication.BasicAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS = {"TITLE": "A small shop", "VERSION": "1"}

CELERY_BROKER_URL = os.environ.get("REDIS_URL") or "redis://localhost:6379/0"
# Two demos on one Redis keep their queues apart by this prefix.
CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": os.environ.get("CELERY_KEY_PREFIX", "")}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TIMEZONE = "UTC"

STRIPE_API_BASE = os.environ.get("STRIPE_API_BASE", "https://api.stripe.com")
STRIPE_API_KEY = os.environ.get("STRIPE_API_KEY", "")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name} {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": os.environ.get("LOG_LEVEL", "INFO")},
}

# From this many minor units on, a refund needs the approval of another person.
PAYMENTS_APPROVAL_FROM = int(os.environ.get("PAYMENTS_APPROVAL_FROM", "50000"))
# How long a request to Stripe may take, and how long after its end it may still land there. The demo shortens both.
PAYMENTS_TIMEOUT_SECONDS = float(os.environ.get("PAYMENTS_TIMEOUT_SECONDS", "10"))
PAYMENTS_QUIET_SECONDS = float(os.environ.get("PAYMENTS_QUIET_SECONDS", "300"))

EFFECTS = {
    "DISPATCH": "celery",
    "REQUEST_LEASE": timedelta(seconds=float(os.environ.get("EFFECTS_LEASE_SECONDS", "60"))),
    "LEASE_GRACE": timedelta(seconds=float(os.environ.get("EFFECTS_GRACE_SECONDS", "5"))),
}
