"""Addresses of the example project, and the effects that the console's tests declare."""

import tests.console.declared  # noqa: F401
from project.urls import urlpatterns

__all__ = ["urlpatterns"]
