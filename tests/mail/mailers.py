"""The project's default mailer, set as the Django that runs wants it."""

from __future__ import annotations

from typing import Any

from django.core import mail

SMTP = "django.core.mail.backends.smtp.EmailBackend"
LOCMEM = "django.core.mail.backends.locmem.EmailBackend"
#: Option of `MAILERS`, which is new in Django 6.1 → the setting before.
BEFORE = {
    "host": "EMAIL_HOST",
    "port": "EMAIL_PORT",
    "username": "EMAIL_HOST_USER",
    "password": "EMAIL_HOST_PASSWORD",
    "use_tls": "EMAIL_USE_TLS",
}


def set_mailer(settings: Any, backend: str, **options: Any) -> None:
    """Make a backend with these options the default one."""
    if hasattr(mail, "mailers"):
        settings.MAILERS = {"default": {"BACKEND": backend, "OPTIONS": options}}
        return
    settings.EMAIL_BACKEND = backend
    for name, value in options.items():
        setattr(settings, BEFORE[name], value)
