"""The console's app."""

from __future__ import annotations

from django.apps import AppConfig


class EffectsAdminConfig(AppConfig):
    """Config of the operator console; it has no models and can be left out."""

    name = "effects_admin"
    verbose_name = "Effects console"
