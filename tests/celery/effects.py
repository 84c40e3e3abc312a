"""An effect whose provider is a list in Redis: every process can send to it, and the list is the provider's ledger."""

from __future__ import annotations

import os
from typing import Any

import redis

import effects

LEDGER = "tests:celery:ledger"


def provider() -> redis.Redis:
    """Return the provider."""
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


@effects.register
class Push(effects.Effect[dict]):  # type: ignore[type-arg]
    """Pushes its provider key; the answer to a payload with `lost` gets lost."""

    operation = "celery.push"
    provider = "redis/ledger"
    lookup = effects.Authoritative()

    def send(self, context: Any, permit: Any) -> effects.Applied:
        with provider() as client:
            client.rpush(LEDGER, permit.provider_key)
        if context.payload["lost"]:
            raise TimeoutError("the answer got lost")
        return effects.Applied(reference=permit.provider_key)

    def verify(self, context: Any) -> Any:
        with provider() as client:
            found = context.provider_key in client.lrange(LEDGER, 0, -1)
        return effects.Found(context.provider_key) if found else effects.Absent()
