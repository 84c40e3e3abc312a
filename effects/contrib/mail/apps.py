"""The app; it has no models."""

from __future__ import annotations

from django.apps import AppConfig


class EffectsMailConfig(AppConfig):
    """Config of the mail app; its label is `effects_mail`."""

    name = "effects.contrib.mail"
    label = "effects_mail"
    verbose_name = "Effects: mail"
