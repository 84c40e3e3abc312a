"""What is written wrong in the first hour: each mistake is named, with the line to write, and nothing is half done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from rest_framework.permissions import BasePermission
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView

import effects
from effects.http.decorators import _tell_anonymous
from effects.inspection.checks.projects import check_names_of_settings
from effects.models import Execution
from effects.testing import provider_says
from tests.core.declared import Charge
from tests.core.people import PAYLOAD

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("TABLE effects_execution RENAME TO gone", "perform"),
        ("TABLE effects_execution RENAME COLUMN ages_from TO gone", "perform"),
        ("TABLE effects_receipt RENAME TO gone", "perform"),
        ("TABLE effects_execution RENAME TO gone", "perform_later"),
        ("TABLE effects_execution RENAME TO gone", "find"),
        ("TABLE effects_execution RENAME TO gone", "get"),
    ],
)
def test_tables_that_are_missing_or_old_name_the_command(change: str, what: str) -> None:
    """Whatever asks first; a raw ProgrammingError says neither whose the table is nor what makes it."""
    call: Callable[[], Any] = {
        "perform": lambda: effects.perform(Charge, payload=PAYLOAD, key="k"),
        "perform_later": lambda: effects.perform_later(Charge, payload=PAYLOAD, key="k"),
        "find": lambda: effects.find(key="k"),
        "get": lambda: effects.get(uuid4()),
    }[what]
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER {change}")
    with provider_says(Charge, effects.Applied()) as said, pytest.raises(effects.JournalNotMigratedError) as raised:
        call()
    assert "manage.py migrate effects --database default" in str(raised.value)
    assert said.sends == []


def test_an_app_that_was_forgotten_is_named(settings: Any) -> None:
    """Migrating alone would make no table of an app that is not installed."""
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if not app.startswith("effects")]
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE effects_execution RENAME TO gone")
    with pytest.raises(effects.JournalNotMigratedError, match="Add 'effects' and 'effects_admin' to INSTALLED_APPS"):
        effects.get(uuid4())


def test_a_table_of_the_projects_own_is_not_taken_for_ours() -> None:
    """What a `settled` hook does not find is its own trouble, as before."""
    with connection.cursor() as cursor, pytest.raises(Exception, match="shop_refund") as raised:
        cursor.execute("SELECT * FROM shop_refund")
    assert not isinstance(raised.value, effects.EffectsError)


@dataclass(frozen=True)
class Amounts:
    """Fields of the types that people mix up."""

    cents: int = 0
    name: str = ""
    on: date = date(2026, 1, 1)


class Pay(effects.Effect[Amounts]):
    """Not registered: only read."""

    operation = "mistakes.pay"
    provider = "mistakes/bank"


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (
            {"cents": Decimal(5)},
            "$.cents: expected int, found Decimal. Pass a value of int, or declare the field as Decimal.",
        ),
        ({"name": uuid4()}, "$.name: expected str, found UUID. Pass a value of str, or declare the field as UUID."),
        ({"cents": "5"}, "$.cents: expected int, found str."),
        ({"cents": True}, "$.cents: expected int, found bool."),
    ],
)
def test_a_value_of_another_type_says_what_to_pass_or_declare(payload: dict[str, Any], said: str) -> None:
    """What JSON has is said as it is, since a client may have sent it; what it has not is the project's own value."""
    with pytest.raises(effects.PayloadError) as raised:
        Pay().read(payload)
    assert str(raised.value) == said


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda ref: effects.wait(ref, 1), "timedelta"),
        (lambda ref: effects.wait(ref, None), "timedelta"),
        (lambda ref: effects.observe(ref, reference="po_1", evidence=[1]), "a text and a dict, not str and list"),
        (lambda ref: effects.observe(ref, reference=7, evidence={}), "a text and a dict, not int and dict"),
        (lambda ref: effects.observe(ref, reference="po_1", evidence="seen"), "not str and str"),
    ],
)
def test_an_argument_of_another_type_is_a_type_error_in_words(call: Callable[[str], Any], said: str) -> None:
    """And nothing was written."""
    with provider_says(Charge, effects.Applied()):
        ref = effects.perform(Charge, payload=PAYLOAD, key="k").ref
    with pytest.raises(TypeError, match=said):
        call(ref)
    assert effects.get(ref).revision == Execution.objects.get().revision


@pytest.mark.parametrize("ref", [5, None, "order-17", b"x", Execution])
def test_what_is_no_ref_is_an_execution_that_is_not_there(ref: Any) -> None:
    """In every verb, also for a value that is no text."""
    for verb in (lambda: effects.get(ref), lambda: effects.observe(ref, reference="r", evidence={})):
        with pytest.raises(effects.ExecutionNotFoundError):
            verb()


def test_a_thread_of_a_handlers_own_is_told_about_its_key() -> None:
    """There the request is not known, so that only a key can say what is one occurrence."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            effects.perform(Charge, payload=PAYLOAD)
        except effects.KeyRequiredError as error:
            raised.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "key='order-17'" in str(raised[0])
    assert "thread" in str(raised[0])


class HasKey(BasePermission):
    """An API key that a permission checks: it lets a caller in, and names nobody."""

    def has_permission(self, request: Any, view: Any) -> bool:
        """Let in who has the key."""
        return bool(request.headers.get("X-Api-Key") == "sesame")


class Refunds(APIView):
    """A view for programs."""

    permission_classes = [HasKey]

    @effects.idempotent("mistakes.refund", mode="transactional")
    def post(self, request: Any) -> Response:
        """Answer."""
        return Response({"ok": True}, status=201)

    @effects.idempotent("mistakes.named", mode="transactional", identity=lambda request: request.headers["X-Api-Key"])
    def put(self, request: Any) -> Response:
        """Answer."""
        return Response({"ok": True}, status=201)


@pytest.mark.django_db(transaction=True)
def test_a_caller_whom_only_a_permission_knows_is_refused_with_the_line_to_write(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The client is told 403, and the developer, once, that the view lets in callers without a name."""
    settings.EFFECTS = {}
    _tell_anonymous.cache_clear()
    headers = {"X-Api-Key": "sesame", "Idempotency-Key": "k"}
    view = Refunds.as_view()
    answers = [view(APIRequestFactory().post("/", {}, headers=headers)).status_code for _ in range(2)]
    assert set(answers) <= {401, 403}
    (told,) = [record.getMessage() for record in caplog.records if "identity=" in record.getMessage()]
    assert told.startswith("mistakes.refund: ")
    assert view(APIRequestFactory().put("/", {}, headers=headers)).status_code == 201


class Protected:
    """A mixin of a project's own."""

    @effects.idempotent("mistakes.mixed", mode="transactional", identity="shop")
    def post(self, request: Any) -> Response:
        """Answer."""
        return Response({"ok": True}, status=201)


class Mixed(APIView, Protected):  # type: ignore[misc]
    """The mixin stands after the view, as nobody should write and some do."""

    permission_classes = ()


@pytest.mark.django_db(transaction=True)
def test_a_mixin_after_the_view_is_protected_all_the_same(settings: Any) -> None:
    """`APIView` has no `post` of its own, so Python finds the mixin's."""
    settings.EFFECTS = {}
    view = Mixed.as_view()
    first, again = (view(APIRequestFactory().post("/", {}, headers={"Idempotency-Key": "k"})) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize("name", ["DISPATCH", "DATABASE", "NOTIFY"])
def test_a_setting_beside_effects_is_warned_of(settings: Any, name: str) -> None:
    """Its value is read by nobody, and the default is silent."""
    setattr(settings, f"EFFECTS_{name}", "celery")
    (found,) = check_names_of_settings()
    assert found.id == "effects.W014"
    assert f"EFFECTS = {{'{name}': …}}" in str(found.hint)


def test_other_settings_are_the_projects_own(settings: Any) -> None:
    """A name that is none of our keys is not ours to speak of."""
    settings.EFFECTS_OF_LIGHT = settings.EFFECTS_SWEEP_SECONDS = timedelta(0)
    assert check_names_of_settings() == []
