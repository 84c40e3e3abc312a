"""The console's app."""

from __future__ import annotations

from importlib.util import find_spec

from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured

import effects

# before anything else imports it: what is not ours has no checks that could say so
if not hasattr(effects, "__path__") or find_spec("effects.conf") is None:
    raise ImproperlyConfigured(
        f"`import effects` gives the module at {getattr(effects, '__file__', None) or 'nowhere'}, not django-effects. "
        "Rename or uninstall that one, then install django-effects again."
    )


class EffectsAdminConfig(AppConfig):
    """Config of the operator console; it has no models and can be left out."""

    name = "effects_admin"
    verbose_name = "Effects console"

    def ready(self) -> None:
        """Refuse to show a journal that there is not."""
        if not apps.is_installed("effects"):
            raise ImproperlyConfigured(
                "effects_admin shows the journal of 'effects': add it to INSTALLED_APPS as well."
            )
