"""A journaled `ModelViewSet`: its own `create` writes, so it has to be written out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.viewsets import ModelViewSet

import effects
from effects.http.decorators import idempotent
from effects.models import Execution
from effects.testing import provider_says
from effects.vocabulary.exceptions import LocalWriteError
from tests.core.declared import Charge
from tests.http.asking import factory
from tests.http.does import PAYLOAD, charge_answer

pytestmark = pytest.mark.django_db(transaction=True)


class GroupSerializer(serializers.ModelSerializer):  # type: ignore[type-arg]
    class Meta:
        model = Group
        fields = ("name",)


class Groups(ModelViewSet):  # type: ignore[type-arg]
    authentication_classes = ()
    permission_classes = ()
    queryset = Group.objects.all()
    serializer_class = GroupSerializer


class Charged(Groups):
    @idempotent("groups.create", mode="journaled", performs=[Charge], answer=charge_answer, identity="machine")
    def create(self, request: Any) -> Response:
        """Charge first; the row commits with the answer."""
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        answer: Response = charge_answer(effects.perform(Charge, payload=PAYLOAD))
        with effects.current().finishing():  # type: ignore[union-attr]
            serializer.save()
        return answer


class Inherited(Groups):
    @idempotent("groups.inherited", mode="journaled", performs=[Charge], answer=charge_answer, identity="machine")
    def create(self, request: Any) -> Response:
        """Save where nothing binds the row to the answer."""
        return super().create(request)


def post(view: type[Groups], **data: Any) -> Any:
    request = factory.post("/groups/", json.dumps(data), "application/json", headers={"Idempotency-Key": "k"})
    return view.as_view({"post": "create"})(request)


def test_its_row_goes_with_the_answer() -> None:
    """Charged once, saved once, and what is invalid frees the key before anything is sent."""
    with provider_says(Charge, effects.Applied({"id": "ch_1"}, "ch_1")):
        assert post(Charged).status_code == 400
        first, again = post(Charged, name="a"), post(Charged, name="a")
    assert (first.status_code, again["Idempotent-Replayed"]) == (201, "true")
    assert (Group.objects.count(), Execution.objects.count()) == (1, 1)


def test_the_method_of_the_framework_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Its row would stand without the answer; the error in the log says where to write it."""
    answer = post(Inherited, name="a")
    assert (answer.status_code, answer.data["code"]) == (500, LocalWriteError.code)
    assert "finishing()" in caplog.text
    assert not Group.objects.exists()
