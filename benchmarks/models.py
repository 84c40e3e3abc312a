"""The project's own rows in a soak. No constraint keeps doubles out: a double is to be seen."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Order(models.Model):
    """What a client asked for with `perform_later`: commits with the record of its execution, or not at all."""

    number = models.BigIntegerField(unique=True)
    objects: ClassVar[models.Manager[Order]] = models.Manager()

    def __str__(self) -> str:
        return f"order-{self.number}"


class Payment(models.Model):
    """What `settled` writes for a completed execution."""

    ref = models.CharField(max_length=40)
    reference = models.CharField(max_length=255)
    objects: ClassVar[models.Manager[Payment]] = models.Manager()

    def __str__(self) -> str:
        return f"{self.ref} as {self.reference}"
