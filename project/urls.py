"""Addresses of the example project."""

from django.contrib import admin
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

urlpatterns = [
    path("admin/", admin.site.urls),
    path("operations/", include("effects.urls")),
    path("effects/", include("effects.http.api.urls")),
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("", include("project.payments.urls")),
]

# clients of the API get no page where an address is none
handler404 = "project.payments.views.not_found"
