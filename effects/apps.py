"""The app: finds the effects of installed apps at start-up and registers the checks."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured
from django.db.models.signals import post_migrate


class EffectsConfig(AppConfig):
    """Config of the journal's app; its label is `effects`."""

    name = "effects"
    verbose_name = "Effects"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import `<app>/effects.py` of each installed app; checks, redaction and the schema begin with it."""
        from effects.inspection.checks import register_checks  # noqa: PLC0415 - as above
        from effects.journal import redaction  # noqa: PLC0415 - models are not loaded when this module is
        from effects.transitions import name_new_journal  # noqa: PLC0415 - as above

        register_checks()
        redaction.install()
        post_migrate.connect(name_new_journal, sender=self)
        if apps.is_installed("drf_spectacular"):
            import_module("effects.http.schema")
        for config in apps.get_app_configs():
            if config.name == self.name or find_spec(f"{config.name}.effects") is None:
                continue
            try:
                import_module(f"{config.name}.effects")
            except ImportError as error:
                if f"from 'effects' ({config.name.replace('.', '/')}" in str(error):
                    raise ImproperlyConfigured(_SHADOWED.format(module=f"{config.name}.effects")) from error
                raise


_SHADOWED = (
    "{module} imports itself instead of the library: write `import effects` for the library and "
    "`from .effects import X` for your own module."
)
