"""URLs of the library: `path("operations/", include("effects.urls"))`."""

from __future__ import annotations

from django.urls import path

from effects.http.status import operation_status

app_name = "effects"
urlpatterns = [path("<str:ref>/", operation_status, name="operation-status")]
