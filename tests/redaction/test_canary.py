"""A canary goes through every door at once, and is then looked for everywhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core import mail
from django.db import connection, connections
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import clear_url_caches, include, path, reverse
from django.utils.log import AdminEmailHandler

import effects
from effects.models import Approval, Execution, Receipt, Request
from effects.runtime import operators
from effects.testing import provider_says, run_due, time_passes
from effects.vocabulary import exceptions
from effects_admin.verbs import EXECUTION_VERBS, REQUEST_VERBS
from tests.core.declared import Approved, Charge, ChargePayload, Noted, Plain
from tests.core.people import approve, live, person
from tests.core.test_requests import answers, conclude, handled, opened
from tests.redaction.declared import CANARY, Loose, Wire, transfer

__all__ = ["answers"]

pytestmark = pytest.mark.django_db(transaction=True)
CARD = "4111 1111 1111 1111"
PAYLOAD = ChargePayload("c1", 1)

#: All that was printed of contexts, permits, outcomes and errors while the canary was under way.
printed: list[str] = []


def prints(*values: Any) -> None:
    printed.extend(f"{value!r} {value} {getattr(value, 'args', '')}" for value in values)


def failing_view(request: HttpRequest) -> HttpResponse:
    """Perform what is declined, and let the error go; as a view may, its variables are in the error mail."""
    payload = transfer()
    with provider_says(Wire, effects.Declined(f"no account {CANARY}", code="declined")):
        outcome = effects.perform(Wire, payload=payload, key="from-the-view")
    return HttpResponse(outcome.require())


urlpatterns = [path("fails/", failing_view), path("", include(django_settings.ROOT_URLCONF))]


class Everything(logging.Handler):
    """Keeps what a log file would hold, tracebacks included."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def all_logs() -> Iterator[list[str]]:
    """Everything that any logger says, SQL with its parameters included."""
    handler, root = Everything(), logging.getLogger()
    loggers = [root, *(one for one in root.manager.loggerDict.values() if isinstance(one, logging.Logger))]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    # while a mail about an error is rendered, Django's templates say at DEBUG which variables they lack, and Python
    # adds the error that is being handled; docs/guides/secrets.md says so
    logging.getLogger("django.template").setLevel(logging.INFO)
    root.addHandler(handler)
    connection.force_debug_cursor = True
    try:
        yield handler.lines
    finally:
        connection.force_debug_cursor = False
        root.removeHandler(handler)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@pytest.fixture
def mails(settings: Any) -> Iterator[list[Any]]:
    """Django's error mails, with frames and variables, of the views and of our own loggers."""
    settings.ADMINS = [("Ann", "ann@example.org")] if _pairs() else ["ann@example.org"]
    handler = AdminEmailHandler(include_html=True)
    handler.setLevel(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("effects", "django.request")]
    for logger in loggers:
        logger.addHandler(handler)
    yield mail.outbox
    for logger in loggers:
        logger.removeHandler(handler)


def _pairs() -> bool:
    import django

    return django.VERSION < (6, 0)


def tables_with(text: str) -> list[str]:
    """Return the tables of the whole database in which a text stands, bytes included."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            # a row as text holds each of its columns; bytes are in hexadecimal
            cursor.execute(
                f'SELECT count(*) FROM "{table}" AS t WHERE t::text LIKE %s OR t::text LIKE %s',
                [f"%{text}%", f"%{text.encode().hex()}%"],
            )
            if cursor.fetchone()[0]:
                found.append(table)
    return found


def pages(client: Client) -> Iterator[str]:
    """Yield every page of the console there is for what the journal holds: lists, rows, confirmations, the queue."""
    yield client.get(reverse("admin:effects_needs_a_person")).content.decode()
    yield client.get(reverse("admin:app_list", args=["effects"])).content.decode()
    for model in (Execution, Request, Approval, Receipt):
        name = model._meta.model_name
        yield client.get(reverse(f"admin:effects_{name}_changelist")).content.decode()
        verbs = {Execution: EXECUTION_VERBS, Request: REQUEST_VERBS}.get(model, ())
        seen = set()
        # each receipt is a line on its row's page already
        for row in model._default_manager.all()[: 20 if model is Receipt else None]:
            yield client.get(reverse(f"admin:effects_{name}_change", args=[row.pk])).content.decode()
            # all of a state's confirmations show the same of a row
            fresh = verbs if getattr(row, "state", "") not in seen else ()
            seen.add(getattr(row, "state", ""))
            for verb in fresh:
                address = reverse(f"admin:effects_{name}_{verb.name.replace('-', '_')}", args=[row.pk])
                yield client.get(address).content.decode()


# -- the doors -----------------------------------------------------------------------------------------------------


def sends() -> None:
    """Payload, precondition token, output, reference, items, provider's texts, errors."""
    Wire.ready = staticmethod(lambda context: effects.Proceed(token=CANARY))
    Wire.shows = staticmethod(lambda context: {"to": context.payload.account, CANARY: f"{CANARY} {CARD}"})

    def send(context: Any, permit: Any) -> Any:
        assert context.payload.account.reveal() == context.token == CANARY
        prints(context, permit)
        return effects.Applied({"echo": [CANARY, {CANARY: context.payload.account}]}, f"po-{CANARY}")

    item = effects.Item("a", True, CANARY, CANARY, f"{CANARY} {CARD}")
    replies = [
        send, effects.Submitted(CANARY), effects.Partial([item, effects.Item("b", False, message=CANARY)], CANARY),
        effects.Declined(CANARY, code=CANARY, reference=CANARY), effects.Doubt(CANARY, code=CANARY),
        TimeoutError(CANARY), ValueError({CANARY: CANARY}), object(), effects.NotNow(CANARY),
    ]  # fmt: skip
    for number, reply in enumerate(replies):
        with provider_says(Wire, reply):
            prints(effects.perform(Wire, payload=transfer(), key=f"wire-{number}", requested_by="ann"))
    with pytest.raises(exceptions.PayloadConflictError) as refused:
        effects.perform(Wire, payload=transfer("other-" + CANARY), key="wire-0")
    prints(refused.value)
    for wrong in ({"account": CANARY}, {"account": effects.Secret(CANARY), "note": CANARY}):
        with pytest.raises(exceptions.PayloadError) as refused_payload:
            effects.perform(Wire, payload=wrong, key="wrong")
        prints(refused_payload.value)
    Wire.ready = staticmethod(lambda context: effects.Refuse(CANARY))
    prints(effects.perform(Wire, payload=transfer(), key="refused"))
    Wire.ready = staticmethod(raising)
    prints(effects.perform(Wire, payload=transfer(), key="broken"))
    Wire.ready = staticmethod(lambda context: effects.Proceed(token=CANARY))
    with provider_says(Loose, effects.Applied()):
        prints(effects.perform(Loose, payload={"deep": [{"in": effects.Secret(CANARY)}]}, key="loose"))


def raising(*_arguments: Any) -> Any:
    raise LookupError(f"there is no {CANARY}")


def hooks_and_answers(say: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """What `settled`, `answer=` and `describe` raise, then and later."""
    monkeypatch.setattr(Noted, "then", staticmethod(raising))
    with provider_says(Noted, effects.Applied(CANARY, "n1")):
        prints(effects.perform(Noted, payload=PAYLOAD, key="hook"))
    say(raising)
    request = opened()
    with provider_says(Charge, TimeoutError(CANARY), look_up=effects.Found("ch_1", CANARY, proof={CANARY: CANARY})):
        handled(request, lambda: prints(effects.perform(Charge, payload=PAYLOAD, key="answered")))
        conclude(request)
        run_due()
        time_passes(timedelta(minutes=1))
        run_due()
    effects.perform_later(Plain, payload=PAYLOAD, key="troubled")
    with monkeypatch.context() as patch:
        patch.setattr(Plain, "describe", raising)
        run_due()


def look_ups() -> None:
    """What look-ups find, say and raise."""
    verdicts = [
        raising, effects.Inconclusive(CANARY, {"said": CANARY}), effects.Unreachable(CANARY),
        effects.InProgress(CANARY, proof={"said": CANARY}), effects.Conflict(CANARY, CANARY, {CANARY: [CANARY]}),
    ]  # fmt: skip
    for number, verdict in enumerate(verdicts):
        with provider_says(Charge, TimeoutError(), look_up=verdict):
            outcome = effects.perform(Charge, payload=PAYLOAD, key=f"look-{number}")
            prints(operators.look_up_now(outcome.ref))


def people() -> None:
    """What people write, and what they are shown."""
    ann, bob = person("ann", approver=False), person("bob")
    with provider_says(Approved, effects.Applied(CANARY, CANARY)):
        outcome = effects.perform(Approved, payload=PAYLOAD, key="granted", requested_by=ann)
        row = Execution.objects.get(pk=outcome.ref)
        prints(effects.grant(row.pk, by=bob, digest=live(row).digest, comment=CANARY))
        run_due()
    for key, decide in (("denied", effects.deny), ("withdrawn", None), ("cancelled", None)):
        outcome = effects.perform(Approved, payload=PAYLOAD, key=key, requested_by=ann)
        row = Execution.objects.get(pk=outcome.ref)
        if decide is not None:
            decide(row.pk, by=bob, digest=live(row).digest, comment=CANARY)
        elif key == "withdrawn":
            effects.withdraw(row.pk, by=ann, reason=CANARY)
        else:
            approve(row, bob)
            effects.cancel(row.pk, by=bob, reason=CANARY)
    with provider_says(Plain, TimeoutError(CANARY)):
        doubtful = effects.perform(Plain, payload=PAYLOAD, key="resolved", requested_by=ann)
    effects.observe(doubtful.ref, reference=CANARY, evidence={CANARY: {"deep": CANARY}})
    row = Execution.objects.get(pk=doubtful.ref)
    prints(
        effects.resolve(
            row.pk, decision="applied", revision=row.revision, by=bob, reason=CANARY, evidence={"seen": CANARY},
            output={"said": CANARY}, reference=CANARY,
        )
    )  # fmt: skip


def test_the_canary_is_nowhere(
    redactor: Any, mails: Any, admin_client: Client, answers: Any, monkeypatch: pytest.MonkeyPatch,
    settings: Any,
) -> None:  # fmt: skip
    """In no column of any table, log, page, error mail, message or printed value."""
    printed.clear()
    redactor()
    settings.ROOT_URLCONF = __name__
    clear_url_caches()
    admin_client.raise_request_exception = False
    with all_logs() as logged:
        sends()
        hooks_and_answers(answers, monkeypatch)
        look_ups()
        people()
        assert admin_client.get("/fails/").status_code == 500
    assert Execution.objects.count() > 20

    assert tables_with(CANARY) == []
    assert tables_with(CARD) == []
    shown = list(pages(admin_client))
    assert len(shown) > 90
    for where, texts in {
        "pages": shown,
        "logs": logged,
        "mails": [
            part for one in mails for part in (one.subject, one.body, *(content for content, _ in one.alternatives))
        ],
        "printed": printed,
    }.items():
        assert texts, where
        found = [text[max(text.index(CANARY) - 300, 0) : text.index(CANARY) + 60] for text in texts if CANARY in text]
        assert not found, "\n".join(
            [
                where,
                *(
                    text[:200] + " … " + each
                    for text, each in zip([t for t in texts if CANARY in t], found, strict=True)
                ),
            ][:4]
        )
    assert any("fails" in one.subject or "LookupError" in one.body for one in mails)
    assert any("django.db.backends" in line and "INSERT INTO" in line for line in logged)


def test_what_is_searched_is_what_there_is() -> None:
    """Control: the same search finds a canary that somebody wrote past everything, in text, JSON and bytes."""
    outcome = effects.perform_later(Plain, payload=PAYLOAD, key="k1")
    assert tables_with(CANARY) == []
    Execution.objects.filter(pk=outcome.ref).update(trouble=CANARY)
    request = opened()
    Request.objects.filter(pk=request.pk).update(answer_body=CANARY.encode())
    User.objects.create_user("x", first_name=CANARY)
    Approval.objects.update(summary={CANARY: 1})
    assert tables_with(CANARY) == ["auth_user", "effects_execution", "effects_request"]
    connections["default"].close()
