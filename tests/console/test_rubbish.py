"""Whatever is sent to the console, in any field of any page: an answer in words, and never an error of the server's."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.console.pages import form_of, verb_of
from tests.console.scene import Scene
from tests.rubbish import DEEP, FEW, JSON_TEXTS, TEXTS, encoded

pytestmark = pytest.mark.django_db
MANY = settings(FEW, max_examples=80)
FORM = "application/x-www-form-urlencoded"
MODELS = ("execution", "request", "approval", "receipt")
FILTERS = (
    "state", "reason", "operation", "provider", "risk", "age", "amount", "purpose", "event", "q", "p", "o", "all", "e",
    "_facets", "_popup", "_to_field", "pk", "id", "id__exact", "created_at__gte", "state__exact", "payload__contains",
    "execution__key", "_changelist_filters",
)  # fmt: skip
FIELDS = ("revision", "decision_id", "approval", "digest", "comment", "reason", "decision", "reference", "output")


def ask(client: Client, address: str, query: str = "") -> Any:
    """Ask for an address with a query that no client would write."""
    return client.get(address, QUERY_STRING=query)


def send(client: Client, address: str, fields: Any) -> Any:
    """Send a form that no page of ours made."""
    return client.generic("POST", address, encoded(fields).encode("ascii"), FORM)


@pytest.fixture
def chiefs(scene: Scene, chief: User, browser: Callable[[User], Client]) -> Client:
    """The browser of somebody who may do everything, beside a journal with something in every state."""
    return browser(chief)


def test_lists_take_any_query(chiefs: Client) -> None:
    """Filters, pages, orders and searches of the lists: what is not understood narrows nothing, or is refused."""

    @MANY
    @given(
        st.sampled_from(MODELS),
        st.dictionaries(st.sampled_from(FILTERS), TEXTS | st.lists(TEXTS, max_size=2), min_size=1, max_size=3),
    )
    @example("execution", {"q": "\x00"})
    @example("request", {"state": "\ud800"})
    @example("request", {"operation": "a\x00b"})
    @example("receipt", {"p": "9" * 30})
    @example("approval", {"_to_field": "\x00"})
    def holds(model: str, query: dict[str, Any]) -> None:
        assert ask(chiefs, reverse(f"admin:effects_{model}_changelist"), encoded(query)).status_code < 500

    holds()


def test_pages_take_any_query(chiefs: Client) -> None:
    """The queue, the overview and the pages of several rows."""
    names = ["effects_needs_a_person", "effects_overview", "effects_bulk_approve", "effects_bulk_look_up"]

    @MANY
    @given(
        st.sampled_from(names),
        st.dictionaries(st.sampled_from((*FILTERS, "ref", "item")), st.lists(TEXTS, max_size=3), max_size=3),
    )
    @example("effects_bulk_approve", {"ref": ["\x00", "\ud800", "0" * 32]})
    @example("effects_needs_a_person", {"provider": ["\x00"]})
    def holds(name: str, query: dict[str, Any]) -> None:
        assert ask(chiefs, reverse(f"admin:{name}"), encoded(query)).status_code < 500

    holds()


def test_addresses_take_any_id(chiefs: Client) -> None:
    """A row's page, and its verbs' pages, under an id that none has."""
    pages = ["change/", "approve/", "resolve/", "history/", "delete/"]

    @MANY
    @given(st.sampled_from(MODELS), TEXTS.filter(lambda text: len(text) < 500), st.sampled_from(pages))
    @example("execution", "\x00", "change/")
    @example("request", "\ud800", "resolve/")
    def holds(model: str, ref: str, page: str) -> None:
        change = reverse(f"admin:effects_{model}_change", args=["X"]).removesuffix("change/")
        assert chiefs.get(change.replace("X", encoded({"": ref})[1:]) + page).status_code < 500

    holds()


VERBS = [
    ("waiting", "approve"), ("waiting", "deny"), ("waiting", "withdraw"), ("pending", "cancel"),
    ("hopeless", "resolve"), ("hopeless", "reopen"), ("hopeless", "order-resend"), ("uncertain", "look-up"),
    ("unwritten", "compensate"), ("declined", "supersede"), ("request", "resolve"),
]  # fmt: skip


def test_verbs_take_any_form(chiefs: Client, scene: Scene) -> None:
    """One field of a page's form is replaced, or left out, or sent twice: it is refused, or decided as it says."""
    shown = {}
    for which, verb in VERBS:
        found: Any = getattr(scene, which)
        ref = found[-1] if isinstance(found, list) else getattr(found, "pk", found)
        address = verb_of(ref, verb, "request" if which == "request" else "execution")
        shown[verb, which] = address, form_of(chiefs.get(address))

    @MANY
    @given(
        st.sampled_from(list(shown)),
        st.sampled_from(FIELDS),
        TEXTS | st.none() | st.lists(TEXTS, min_size=2, max_size=2),
    )
    def holds(page: tuple[str, str], name: str, value: Any) -> None:
        address, form = shown[page]
        fields = {"reason": "r", "comment": "c", "decision": "unknown", **form, name: value}
        if value is None:
            del fields[name]
        assert send(chiefs, address, fields).status_code < 500

    for address, form in shown.values():  # revisions that no column holds, on each page
        for revision in ("9" * 30, str(2**63), str(2**31), "9" * 5000, "-1", "x"):
            assert send(chiefs, address, {"reason": "r", **form, "revision": revision}).status_code < 500
    holds()


def test_an_output_takes_any_text(chiefs: Client, scene: Scene) -> None:
    """An operator pastes what the provider's page shows: JSON that cannot be kept is refused by name."""
    address = verb_of(scene.hopeless, "resolve")
    typed = {"reason": "r", "decision": "applied", **form_of(chiefs.get(address))}

    @FEW
    @given(JSON_TEXTS | TEXTS)
    @example(DEEP[0])
    @example(DEEP[1])
    @example('"\\ud800"')
    @example('{"a": "\\u0000"}')
    @example('{"\\ud800": 1}')
    @example("[1e999999]")
    def holds(output: str) -> None:
        answer = send(chiefs, address, {**typed, "output": output, "revision": "0"})
        assert answer.status_code < 500
        answer = send(chiefs, address, {**typed, "output": output})
        assert answer.status_code < 500

    holds()


def test_bulk_items_take_any_text(chiefs: Client, scene: Scene) -> None:
    """An item that no page of ours made refuses the page; a piece of one that it made does what it says, or nothing."""
    real = {
        name: [row.item for row in chiefs.get(reverse(f"admin:effects_bulk_{name}") + f"?ref={ref}").context["ready"]]
        for name, ref in (("approve", scene.waiting[-1]), ("look_up", scene.uncertain))
    }
    parts = {name: items[0].split(":") for name, items in real.items()}
    others = [scene.hopeless, scene.pending, scene.completed[0], scene.waiting[0], str(scene.request.pk)]
    values = TEXTS | st.sampled_from([*others, parts["approve"][2]])

    @MANY
    @given(st.sampled_from(list(parts)), st.integers(0, 3), values, st.lists(TEXTS, max_size=2), TEXTS)
    @example("approve", 0, scene.completed[0], [], "")
    @example("approve", 0, scene.hopeless, [], "")
    @example("approve", 0, scene.waiting[0], [], "")
    @example("look_up", 2, parts["approve"][2], [], "")
    @example("approve", 3, "\x00", [], "")
    @example("approve", 3, "\xe9", [], "")
    @example("approve", 2, "", [], "c")
    @example("look_up", 1, "9" * 40, [], "c")
    @example("approve", 1, "9" * 5000, [], "\x00")
    @example("look_up", 2, "00000000-0000-0000-0000-000000000000", [], "c")
    def holds(name: str, which: int, value: str, more: list[str], comment: str) -> None:
        item = [*parts[name][:which], value, *parts[name][which + 1 :]]
        fields = {"item": [":".join(item), *more], "comment": comment}
        assert send(chiefs, reverse(f"admin:effects_bulk_{name}"), fields).status_code < 500

    holds()


def test_actions_take_any_choice(chiefs: Client) -> None:
    """The lists' own form: which action, which rows."""
    actions = st.sampled_from(["approve_together", "look_up_together", "delete_selected", "__init__", "\x00"])

    @MANY
    @given(st.sampled_from(MODELS), actions | TEXTS, st.lists(TEXTS, max_size=3), TEXTS, TEXTS)
    def holds(model: str, action: str, selected: list[str], across: str, index: str) -> None:
        fields = {"action": action, "_selected_action": selected, "select_across": across, "index": index}
        assert send(chiefs, reverse(f"admin:effects_{model}_changelist"), fields).status_code < 500

    holds()
