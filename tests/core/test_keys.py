"""One key, one occurrence, under the terms that it was recorded with."""

from __future__ import annotations

from datetime import timedelta

import pytest

import effects
from effects.journal.provider_keys import occurrence_of
from effects.models import Execution
from effects.runtime.background import run
from effects.testing import provider_says, run_due, time_passes
from effects.transitions.intents import binding_of
from effects.vocabulary.exceptions import (
    KeyRequiredError,
    PayloadConflictError,
    PayloadError,
    PolicyChangedError,
)
from tests.core.declared import (
    Charge,
    ChargePayload,
    Opaque,
    Plain,
    Renamed,
    Ruled,
)
from tests.core.reading import events, row_of

PAYLOAD = ChargePayload("c1", 1000)
pytestmark = pytest.mark.django_db


class TestKeys:
    """One key, one occurrence."""

    def test_same_key_same_payload_joins(self):
        """The outcome is returned; nothing is sent again, and no receipt is written for the same requester."""
        with provider_says(Charge, effects.Applied(1, "ch_1")) as said:
            first = effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="me")
            again = effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="me")
        assert again == first
        assert len(said.sends) == 1
        assert events() == ["record", "permit", "complete"]

    def test_a_dict_of_the_fields_is_the_same_payload(self):
        """Defaults may be left out: the declared type decides what the payload is."""
        with provider_says(Charge, effects.Applied(1, "ch_1")):
            first = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            assert effects.perform(Charge, payload={"customer": "c1", "amount": 1000}, key="order-17") == first

    def test_same_key_other_payload_is_refused(self):
        """Whatever state the first one is in, the other payload is not sent."""
        with provider_says(Charge, effects.Applied(1, "ch_1")) as said:
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
            with pytest.raises(PayloadConflictError, match="'order-17' already stands for another payload"):
                effects.perform(Charge, payload=ChargePayload("c1", 1001), key="order-17")
        assert len(said.sends) == 1

    def test_another_requester_joins_with_a_receipt(self):
        """Whoever asks for it becomes a requester, and cannot approve it."""
        with provider_says(Charge, effects.Applied(1, "ch_1")):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="me")
            effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="you", on_behalf_of="them")
        assert [actor["id"] for actor in row_of(outcome).requesters] == ["me", "you", "them"]
        assert events() == ["record", "permit", "complete", "join"]

    @pytest.mark.parametrize("key", [None, "", "k" * 256, "a\x00b", "a\ud800b", 17])
    def test_a_key_is_required(self, key):
        """Outside of a request a key is a text that can be stored; nothing else is recorded."""
        with pytest.raises(KeyRequiredError):
            effects.perform(Charge, payload=PAYLOAD, key=key)
        assert not Execution.objects.exists()

    @pytest.mark.parametrize(
        ("payload", "path"),
        [
            ({"customer": "c1", "amount": 1.5}, "$.amount"),
            ({"customer": "c1", "amount": float("nan")}, "$.amount"),
            ({"customer": "c1", "amount": 2**60}, "$.amount"),
            ({"customer": "c1", "amount": "1000"}, "$.amount"),
            ({"customer": "c1"}, "$"),
            ({"customer": "c1", "amount": 1, 2: 3}, "$"),
        ],
    )
    def test_a_payload_that_cannot_be_kept_exactly_is_refused(self, payload, path):
        """The error names the value, and nothing is recorded."""
        with pytest.raises(PayloadError) as caught:
            effects.perform(Charge, payload=payload, key="order-17")
        assert caught.value.path.startswith(path)
        assert not Execution.objects.exists()

    def test_the_provider_key_is_the_same_over_retries(self):
        """Every attempt of one execution is sent under one key."""
        with provider_says(Charge, effects.NotNow(), effects.NotSent(), effects.Applied()) as said:
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
            for _ in range(2):
                time_passes(timedelta(minutes=1))
                run_due()
        assert [permit.number for _, permit in said.sends] == [1, 2, 3]
        assert len({permit.provider_key for _, permit in said.sends} | {Execution.objects.get().provider_key}) == 1

    def test_provider_keys_differ_by_all_that_makes_an_occurrence(self):
        """Tenant, provider, operation, key and generation each make another provider key, and no row's id does."""
        charge, plain = Charge(), Plain()
        keys = {
            occurrence_of(charge, "", "order-17"),
            occurrence_of(charge, "t", "order-17"),
            occurrence_of(plain, "", "order-17"),
            occurrence_of(charge, "", "order-18"),
            occurrence_of(charge, "", "order-17", 2),
            occurrence_of(type("Elsewhere", (Charge,), {"provider": "bank/other"})(), "", "order-17"),
        }
        assert len(keys) == 6
        assert occurrence_of(charge, "", "order-17") == occurrence_of(Charge(), "", "order-17")

    def test_tenants_do_not_meet(self):
        """The same key of two tenants is two occurrences."""
        with provider_says(Charge, effects.Applied()) as said:
            for tenant in ("a", "b"):
                effects.perform(Charge, payload=PAYLOAD, key="order-17", tenant=tenant)
        assert len({permit.provider_key for _, permit in said.sends}) == 2

    def test_a_renamed_operation_meets_what_it_recorded_before(self):
        """Keys are derived from the oldest name: a retry after the renaming is not a second charge."""
        old = type("Old", (Plain,), {"operation": "bank.old_name"})()
        assert occurrence_of(Renamed(), "", "order-17") == occurrence_of(old, "", "order-17")
        with provider_says(Renamed, effects.Applied(1, "ch_1")) as said:
            first = effects.perform(Renamed, payload=PAYLOAD, key="order-17")
            assert row_of(first).binding == binding_of("", "bank.old_name", "order-17")
            Execution.objects.update(operation="bank.old_name")
            again = effects.perform(Renamed, payload=PAYLOAD, key="order-17")
        assert again.ref == first.ref
        assert len(said.sends) == 1


class TestPolicy:
    """Code that was declared otherwise does not touch unsettled rows."""

    def test_a_changed_safety_version(self, monkeypatch):
        """Neither a caller nor a worker goes on, and a settled execution is still returned."""
        with provider_says(Charge, effects.NotNow(), effects.Applied(1)) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(minutes=1))
            with monkeypatch.context() as patch:
                patch.setattr(Charge, "safety_version", 2)
                with pytest.raises(PolicyChangedError, match="safety_version 1"):
                    effects.perform(Charge, payload=PAYLOAD, key="order-17")
                with pytest.raises(PolicyChangedError):
                    run(row_of(outcome).pk)
            assert len(said.sends) == 1
            time_passes(timedelta(minutes=1))  # what the worker raised has put it off
            run_due()
            monkeypatch.setattr(Charge, "safety_version", 2)
            assert effects.perform(Charge, payload=PAYLOAD, key="order-17").require() == 1

    def test_a_changed_provider(self, monkeypatch):
        """An execution recorded for one account is never sent to another one, nor looked up there."""
        with provider_says(Charge, TimeoutError(), look_up=effects.Absent()) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            monkeypatch.setattr(Charge, "provider", "bank/other")
            with pytest.raises(PolicyChangedError, match="'bank/acct_test'"):
                effects.perform(Charge, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(hours=1))
            run_due()
        assert said.look_ups == []
        assert row_of(outcome).state == "uncertain"

    @pytest.mark.parametrize(
        ("name", "value"),
        [("retry", effects.Retry(attempts=9)), ("lookup", effects.Authoritative()), ("repeatable", True)],
    )
    def test_changed_terms_are_named(self, monkeypatch, name, value):
        """Whoever asks again under other terms is told which; the row goes on under its own."""
        with provider_says(Charge, effects.NotNow(), effects.Applied(1)):
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
            monkeypatch.setattr(Charge, name, value)
            with pytest.raises(PolicyChangedError, match=name):
                effects.perform(Charge, payload=PAYLOAD, key="order-17")
            time_passes(timedelta(minutes=1))
            run_due()
        assert row_of(outcome).state == "completed"

    def test_a_caller_who_demands_an_approval_is_not_sent_without_one(self, django_user_model):
        """A due execution that nobody had to approve is not sent on by a caller who asks for an approval."""
        django_user_model.objects.create_superuser("approver", password="x")
        with provider_says(Charge, effects.NotNow(), effects.Applied(1)) as said:
            effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="me")
            time_passes(timedelta(minutes=1))
            with pytest.raises(PolicyChangedError, match="approval"):
                effects.perform(Charge, payload=PAYLOAD, key="order-17", requested_by="me", require_approval=True)
        assert len(said.sends) == 1

    def test_a_rule_that_is_gone_is_kept_by_the_row(self, django_user_model, monkeypatch):
        """A deploy that drops the rule does not free what waits for people."""
        django_user_model.objects.create_superuser("approver", password="x")
        with provider_says(Ruled, effects.Applied(1)) as said:
            effects.perform(Ruled, payload=PAYLOAD, key="order-17", requested_by="me")
            monkeypatch.setattr(Ruled, "rule", None)
            assert isinstance(
                effects.perform(Ruled, payload=PAYLOAD, key="order-17", requested_by="me"), effects.AwaitingApproval
            )
        assert said.sends == []

    def test_a_newer_payload_version_is_compared_after_its_upgrade(self, monkeypatch):
        """The same contents in a newer shape are the same payload."""
        with provider_says(Opaque, effects.Applied(1)):
            first = effects.perform(Opaque, payload={"sum": 5}, key="order-17")
            monkeypatch.setattr(Opaque, "payload_version", 2)
            monkeypatch.setattr(Opaque, "upgrade", lambda self, payload, version: {"amount": payload["sum"]})
            assert effects.perform(Opaque, payload={"amount": 5}, key="order-17") == first
            with pytest.raises(PayloadConflictError):
                effects.perform(Opaque, payload={"amount": 6}, key="order-17")
