"""Any HTTP API that has no connector of its own: `pip install django-effects[httpx]`, then subclass and register."""

from __future__ import annotations

from effects.contrib.httpx.effect import CallApi
from effects.contrib.httpx.message import ApiRequest

__all__ = ["ApiRequest", "CallApi"]
