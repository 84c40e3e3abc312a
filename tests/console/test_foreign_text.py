"""Text from outside, in every column that holds any, on every page: shown as it is, never run, never invisible."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, models

from effects.models import Approval, ApprovalVote, Attempt, Execution, Heartbeat, Receipt, Request
from tests.console.pages import form_of, verb_of
from tests.console.scene import Scene, pages

pytestmark = pytest.mark.django_db
NASTY = "<b onx=1>\u202e\u200b\x1b{}%s"
#: What none of it may come out as: markup, a right-to-left override, a space without width, an escape.
RAW = ("<b onx", "\u202e", "\u200b", "\x1b")
#: Words of our own, digests, and what a page is found by.
OURS = {
    "answer_missing", "approvers", "binding", "decision", "digest", "event", "from_state", "key", "mode", "operation",
    "outcome", "payload", "payload_digest", "provider_key", "purpose", "reason", "risk", "state", "summary_digest",
    "sweep", "to_state",
}  # fmt: skip


def nasty(value: Any) -> Any:
    """Replace each text within a JSON value."""
    if isinstance(value, dict):
        return {name: nasty(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [nasty(inner) for inner in value]
    return NASTY if isinstance(value, str) else value


def spoil(model: type[models.Model]) -> None:
    """Put the text into each column of a model that holds text from outside."""
    fields = [field for field in model._meta.fields if field.name not in OURS and not field.is_relation]
    texts = {
        field.name: NASTY[: field.max_length]
        for field in fields
        if isinstance(field, (models.CharField, models.TextField)) and not field.primary_key
    }
    for row in model._default_manager.all():
        found = {field.name: getattr(row, field.name) for field in fields if isinstance(field, models.JSONField)}
        told = {name: nasty(value) for name, value in found.items() if value and name not in ("contract", "rule")}
        model._default_manager.filter(pk=row.pk).update(**texts, **told)


def test_no_text_from_outside_is_run_or_invisible(scene: Scene, chief: User, browser: Any) -> None:
    """On each page of each kind, and on each verb's page before and after its refusal."""
    addresses = list(pages(scene).values())
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE effects_receipt DISABLE TRIGGER USER")
    for model in (Execution, Request, Receipt, Attempt, Approval, ApprovalVote, Heartbeat):
        spoil(model)
    Execution.objects.update(about_type="shop.order", trouble_count=5)
    client, bodies = browser(chief), {}
    for address in addresses:
        bodies[address] = client.get(address).content.decode()
    for ref, verb in (
        (scene.hopeless, "resolve"), (scene.hopeless, "order-resend"), (scene.hopeless, "approve"),
        (scene.uncertain, "look-up"), (scene.waiting[0], "approve"), (scene.waiting[0], "deny"),
        (scene.waiting[0], "approve"), (scene.waiting[2], "withdraw"), (scene.pending, "cancel"),
        (scene.completed[1], "compensate"), (scene.completed[1], "cancel"),
    ):  # fmt: skip
        address = verb_of(ref, verb)
        shown = client.get(address)
        typed = {"reason": "r", "comment": "c", "decision": "not_applied"}
        done = client.post(address, {**form_of(shown), **typed}, follow=True)
        bodies |= {f"GET {address}": shown.content.decode(), f"POST {address}": done.content.decode()}
    assert "&lt;b onx=1&gt;\\u202e\\u200b\\u001b{}%s" in bodies[verb_of(scene.waiting[1], "approve")]
    assert not [(address, raw) for address, body in bodies.items() for raw in RAW if raw in body]
