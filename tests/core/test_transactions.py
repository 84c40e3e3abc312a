"""No provider is called inside a transaction that could still be rolled back."""

from __future__ import annotations

import pytest
from django.core.handlers.base import BaseHandler
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import RequestFactory

import effects
from effects.models import Execution
from effects.testing import provider_says, run_due
from effects.vocabulary.exceptions import (
    OpenTransactionError,
)
from tests.core.declared import (
    Charge,
    ChargePayload,
    Plain,
)
from tests.core.racing import OnSend, second_connection
from tests.core.reading import row_of

PAYLOAD = ChargePayload("c1", 1000)
pytestmark = pytest.mark.django_db(transaction=True)


class TestTransactions:
    """No provider is called inside a transaction that could still be rolled back."""

    @pytest.mark.parametrize("depth", [1, 2])
    def test_perform_in_atomic_is_refused_before_anything_is_written(self, depth):
        """The message names perform_later."""
        with provider_says(Charge, effects.Applied()) as said, transaction.atomic():
            message = r"perform\(Charge\).*effects\.perform_later"
            with transaction.atomic(savepoint=depth == 2), pytest.raises(OpenTransactionError, match=message):
                effects.perform(Charge, payload=PAYLOAD, key="order-17")
            assert not Execution.objects.exists()
        assert said.sends == []

    def test_perform_under_atomic_requests_is_refused(self):
        """The message names the decorator that exempts the view."""

        def view(request):
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
            return HttpResponse()

        connection.settings_dict["ATOMIC_REQUESTS"] = True
        try:
            wrapped = BaseHandler().make_view_atomic(view)
            with pytest.raises(OpenTransactionError, match="non_atomic_requests"):
                wrapped(RequestFactory().post("/"))
        finally:
            connection.settings_dict["ATOMIC_REQUESTS"] = False
        assert not Execution.objects.exists()

    def test_perform_later_commits_with_the_callers_rows(self, django_user_model):
        """It is there after the commit, and a sweep sends it."""
        with provider_says(Charge, effects.Applied(1, "ch_1")) as said:
            with transaction.atomic():
                django_user_model.objects.create(username="new")
                outcome = effects.perform_later(Charge, payload=PAYLOAD, key="order-17")
                assert isinstance(outcome, effects.Pending)
                assert said.sends == []
            run_due()
        assert row_of(outcome).state == "completed"
        assert len(said.sends) == 1

    def test_perform_later_rolls_back_with_the_callers_rows(self, django_user_model, settings):
        """Neither the row nor the hint survives."""
        hints = []
        settings.EFFECTS = {"DISPATCH": hints.append}
        with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
            django_user_model.objects.create(username="new")
            effects.perform_later(Charge, payload=PAYLOAD, key="order-17")
            raise ZeroDivisionError
        assert not Execution.objects.exists()
        assert hints == []

    def test_perform_later_hints_after_the_commit(self, settings):
        """The worker is told once the row can be seen."""
        hints = []
        settings.EFFECTS = {"DISPATCH": hints.append}
        with transaction.atomic():
            outcome = effects.perform_later(Charge, payload=PAYLOAD, key="order-17")
            assert hints == []
        assert hints == [outcome.ref]

    def test_perform_later_in_a_hook_joins_the_settling(self, monkeypatch):
        """A hook may record the next effect; it commits with the outcome that caused it."""
        monkeypatch.setattr(
            Charge, "settled", lambda self, context, outcome: effects.perform_later(Plain, payload=PAYLOAD, key="next")
        )
        with provider_says(Charge, effects.Applied(1)), provider_says(Plain, effects.Applied(2)):
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
            assert Execution.objects.get(key="next").state == "pending"
            run_due()
        assert Execution.objects.get(key="next").state == "completed"

    def test_perform_in_a_hook_is_refused(self, monkeypatch, caplog):
        """A provider call inside of the settling transaction is an error of the hook; the outcome stands."""
        monkeypatch.setattr(
            Charge, "settled", lambda self, context, outcome: effects.perform(Plain, payload=PAYLOAD, key="next")
        )
        with provider_says(Charge, effects.Applied(1)), provider_says(Plain, effects.Applied(2)) as said:
            outcome = effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert outcome.require() == 1
        assert said.sends == []
        assert "OpenTransactionError" in row_of(outcome).hook_error

    def test_a_framework_retry_meets_the_first_attempt(self):
        """Code that is run again after the call, by a retry of whoever called it, sends nothing again."""
        with provider_says(Charge, effects.Applied(1, "ch_1")) as said:
            for _ in range(2):
                assert effects.perform(Charge, payload=PAYLOAD, key="order-17").require() == 1
        assert len(said.sends) == 1

    def test_the_record_is_committed_when_the_provider_is_called(self):
        """Another connection sees the open attempt while the call is under way."""
        seen = []

        def look() -> None:
            with second_connection() as second:
                seen.append(second.execute("SELECT state, open_attempts FROM effects_execution").fetchone())

        with provider_says(Charge, effects.Applied(1)) as said:
            said.sends = OnSend(look)
            effects.perform(Charge, payload=PAYLOAD, key="order-17")
        assert seen == [("executing", 1)]
