"""How a check says what it found: with a frozen id, a hint, and a link to the page of checks."""

from __future__ import annotations

from django.core import checks

from effects.conf import DOCS

__all__ = ["APP_LABEL", "DISTRIBUTION", "TAG", "link", "make_error", "make_warning"]

TAG = "effects"
APP_LABEL = "effects"
DISTRIBUTION = "django-effects"


def make_error(number: int, message: str, hint: str) -> checks.Error:
    """Return an error with its frozen id, and a hint that ends with a link to the page of checks."""
    return checks.Error(message, hint=f"{hint} {link(f'E{number:03}')}", id=f"{TAG}.E{number:03}")


def make_warning(number: int, message: str, hint: str) -> checks.Warning:
    """Return a warning, made as an error is."""
    return checks.Warning(message, hint=f"{hint} {link(f'W{number:03}')}", id=f"{TAG}.W{number:03}")


def link(name: str) -> str:
    """Return where the page of checks explains an id."""
    return f"See {DOCS}/reference/checks/#effects-{name.lower()}"
