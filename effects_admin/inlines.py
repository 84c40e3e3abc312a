"""What the project's own pages show of the journal: the executions about one of its objects, on that object's page."""

# Django's hooks are given more than each needs.
# ruff: noqa: ARG002

from __future__ import annotations

from typing import Any

from django import forms
from django.apps import apps
from django.contrib.admin.checks import InlineModelAdminChecks
from django.contrib.admin.options import InlineModelAdmin
from django.core import checks
from django.db.models import Model
from django.http import HttpRequest

from effects.inspection.checks.messages import make_error
from effects.models import Execution
from effects.vocabulary.names import about_of

__all__ = ["ExecutionInline"]


class _Checks(InlineModelAdminChecks):
    """In place of Django's, which look for a foreign key: an execution names its object by text."""

    def check(self, inline_obj: Any, **kwargs: Any) -> list[checks.CheckMessage]:  # type: ignore[override]
        """E026: the console is not installed, or not on this site, so that the inline would show nothing, ever."""
        site = inline_obj.admin_site
        if apps.is_installed("effects_admin") and site.is_registered(Execution):
            return []
        parent = inline_obj.parent_model._meta.label
        where = f"the admin site {site.name!r}" if apps.is_installed("effects_admin") else "INSTALLED_APPS"
        fix = (
            "Register effects_admin.admin.ExecutionAdmin on that site, or leave the inline out of its ModelAdmin."
            if apps.is_installed("effects_admin")
            else "Add 'effects_admin' to INSTALLED_APPS, or leave the inline out."
        )
        return [make_error(26, f"The admin of {parent} shows executions, and the console is not on {where}.", fix)]


class _Rows(forms.BaseModelFormSet):  # type: ignore[type-arg]
    """Rows without a form: nothing of what is posted with the page is read, and nothing is written."""

    def __init__(self, *args: Any, instance: Model | None = None, queryset: Any = None, **kwargs: Any) -> None:
        super().__init__(queryset=Execution.objects.none(), prefix=kwargs.get("prefix"))
        #: The object on whose page it stands.
        self.instance = instance

    @classmethod
    def get_default_prefix(cls) -> str:
        """Return what sets it apart from the page's other formsets."""
        return "effects"

    def is_valid(self) -> bool:
        """There is nothing that could be wrong."""
        return True

    def save(self, commit: bool = True) -> list[Execution]:
        """Write nothing."""
        self.new_objects: list[Any] = []
        self.changed_objects: list[Any] = []
        self.deleted_objects: list[Any] = []
        return []


_Formset = forms.modelformset_factory(Execution, formset=_Rows, fields=(), extra=0, max_num=0)


class ExecutionInline(InlineModelAdmin):  # type: ignore[type-arg]
    """The executions about an object (`about=`), on the object's page in the project's own admin.

    Put it into the `inlines` of the object's ModelAdmin. It shows each execution that this person could open in the
    console, with its state and a link, the newest first; to somebody who may open none it shows nothing. It finds rows
    as the console does, through the `get_queryset` of the ModelAdmin that is registered for executions.

    Attributes:
        most: how many it shows.
    """

    model = Execution
    template = "effects_admin/about.html"
    formset = _Formset  # type: ignore[assignment]  # not a foreign key's
    checks_class = _Checks
    verbose_name_plural = "Outside effects"
    extra = 0
    most = 20

    @property
    def media(self) -> forms.Media:
        """The console's own style; there is nothing to script."""
        return forms.Media(css={"all": ["effects_admin/console.css"]})

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows come from verbs."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows change by verbs."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows stay."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Each row is asked for by itself."""
        return True

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return none: there is no form."""
        return ()

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        """Return the class of the rows about one object, as this person may see them."""
        return type("ExecutionFormset", (_Formset,), {"rows": self._rows(request, obj)})

    def get_queryset(self, request: HttpRequest) -> Any:
        """Return what the console would show, whatever it is about."""
        return self.admin_site.get_model_admin(Execution).get_queryset(request)

    def _rows(self, request: HttpRequest, obj: Model | None) -> list[Execution]:
        if obj is None or obj.pk is None:
            return []
        console: Any = self.admin_site.get_model_admin(Execution)
        about_type, about_id = about_of(obj)
        newest = self.get_queryset(request).filter(about_type=about_type, about_id=about_id).order_by("-id")
        return [row for row in newest[: self.most] if console.has_view_permission(request, row)]
