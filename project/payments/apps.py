"""The app."""

from importlib import import_module

import stripe
from django.apps import AppConfig


class PaymentsConfig(AppConfig):
    """Config of the shop's payments."""

    name = "project.payments"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Set up the libraries that a web server's process uses too."""
        # else a hint to a worker would be published with Celery's default app, to no broker of ours
        import_module("project.celery")
        # else the SDK writes an id to the home directory
        stripe.enable_telemetry = False
