"""URLs of the API, and what answers beside it."""

from django.urls import include, path

urlpatterns = [path("operations/", include("effects.urls")), path("effects/", include("effects.http.api.urls"))]
