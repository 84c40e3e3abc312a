"""Addresses of the example project."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("operations/", include("effects.urls")),
    path("", include("project.payments.urls")),
]
