"""A row that raises whenever it is worked on: the others go on, it backs off, and it reaches a person."""

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse

import effects
from effects._locks import now
from effects.models import Execution
from effects.testing import provider_says, run_due, time_passes
from tests.core.declared import Charge, ChargePayload, Plain

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_backs_off_shows_and_recovers(admin_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken one is tried ever more rarely and stands in the console; mended it is sent; the other never waited."""
    broken = effects.perform_later(Plain, payload=ChargePayload("bad", 1), key="broken")
    fine = effects.perform_later(Plain, payload=ChargePayload("good", 1), key="fine")
    with provider_says(Plain, effects.Applied(1)) as said, monkeypatch.context() as patch:
        real = Plain.describe

        def describe(self: Any, context: Any) -> effects.Summary:
            if context.payload.customer == "bad":
                raise LookupError("no such customer")
            return real(self, context)

        patch.setattr(Plain, "describe", describe)
        pauses = []
        for _ in range(4):
            run_due()
            row = Execution.objects.get(pk=broken.ref)
            pauses.append(round((row.swept_until - now()).total_seconds(), -1))
            page = admin_client.get(reverse("admin:effects_needs_a_person")).content.decode()
            assert ("no such customer" in page) == (row.trouble_count >= 3)
            time_passes(row.swept_until - row.created_at)
        assert pauses == [30, 60, 120, 240]
        assert row.trouble_count == 4
        assert "LookupError" in row.trouble
    assert [permit.number for _, permit in said.sends] == [1]
    assert effects.get(fine.ref).state == "completed"
    with provider_says(Plain, effects.Applied(1)):
        time_passes(timedelta(hours=1))
        run_due()
    row.refresh_from_db()
    assert (row.state, row.trouble_count, row.trouble) == ("completed", 0, "")


def test_a_look_up_that_raises_for_ever_backs_off_and_reaches_a_person(settings: Any) -> None:
    """Its claim alone is no progress; nor is somebody who joins."""

    def nobody(tenant: str) -> Any:
        raise LookupError("no such tenant")

    with provider_says(Charge, TimeoutError()):
        row = Execution.objects.get(pk=effects.perform(Charge, payload=ChargePayload("c1", 1), key="k1").ref)
    settings.EFFECTS = {"TENANT_CONTEXT": nobody}
    pauses = []
    for number in range(4):
        time_passes(timedelta(minutes=10))
        run_due()
        effects.perform(Charge, payload=ChargePayload("c1", 1), key="k1", requested_by=f"user {number}")
        row.refresh_from_db()
        pauses.append(row.trouble_count)
    assert pauses == [1, 2, 3, 4]
    settings.EFFECTS = {}
    time_passes(timedelta(hours=1))
    with provider_says(Charge, look_up=effects.Found("ch_1")):
        run_due()
    row.refresh_from_db()
    assert (row.state, row.trouble) == ("completed", "")
