"""Lists and pages: who sees what, with how many queries, and that looking changes nothing."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

import effects
from effects.models import Approval, Attempt, Execution, Heartbeat, Receipt, Request, RequestExecution
from effects.testing import provider_says
from effects.vocabulary.states import ExecutionReason
from effects_admin.evidence import _OURS
from effects_admin.filters import BoundedChangeList
from tests.audit.journals import everything
from tests.console.declared import PayOut, Payout
from tests.console.pages import page_of, text_of, verb_of

pytestmark = pytest.mark.django_db
LISTS = ["effects_execution_changelist", "effects_request_changelist", "effects_approval_changelist",
         "effects_receipt_changelist", "effects_needs_a_person"]  # fmt: skip
VERBS = ["approve", "deny", "look-up", "resolve", "reopen", "order-resend", "withdraw", "cancel"]
NASTY = "<script>alert(1)</script>{}{0}%s\u202egnp"


def count_queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert client.get(address).status_code == 200
    return len(queries)


def make_request(key: str, state: str = "in_doubt", **fields: Any) -> Request:
    from django.utils import timezone

    now = timezone.now()
    ended = now if state in ("answered", "released", "resolved") else None
    return Request.objects.create(
        operation="orders.refund", mode="journaled", subject="user:7", key=key, binding=key.ljust(64, "."),
        state=state, reason="handler_failed", created_at=now, ended_at=ended, **fields,
    )  # fmt: skip


@pytest.fixture
def journal(waiting: Callable[..., effects.Outcome], doubtful: Callable[..., effects.Outcome]) -> Callable[[int], None]:
    """Fill the journal with n of everything more."""

    def fill(count: int, prefix: str) -> None:
        for number in range(count):
            key = f"{prefix}{number}"
            outcomes = [waiting(f"w{key}"), doubtful(f"d{key}"), doubtful(f"n{key}")]
            Execution.objects.filter(pk=outcomes[2].ref).update(state="needs_intervention", reason="no_plan")
            request = make_request(f"r{key}")
            RequestExecution.objects.create(request=request, execution_id=outcomes[0].ref, position=0, holds=True)

    return fill


@pytest.mark.parametrize("name", LISTS)
def test_list_costs_the_same_whatever_its_length(
    name: str, journal: Any, browser: Callable[[User], Client], ann: User
) -> None:
    """A list of 21 of everything takes as many queries as a list of one."""
    client = browser(ann)
    journal(1, "a")
    client.get(reverse(f"admin:{name}"))
    first = count_queries(client, reverse(f"admin:{name}"))
    journal(20, "b")
    assert count_queries(client, reverse(f"admin:{name}")) == first


def test_page_costs_the_same_whatever_hangs_on_it(waiting: Any, browser: Callable[[User], Client], ann: User) -> None:
    """An execution's page takes as many queries with 20 receipts, sends, approvals and requests as with one."""
    client, ref = browser(ann), waiting().ref
    row = Execution.objects.get(pk=ref)

    def hang(number: int) -> None:
        request = make_request(f"r{number}")
        RequestExecution.objects.create(request=request, execution=row, position=number, holds=True)
        old = Approval.objects.get(execution=row, state="requested")
        old.pk, old.state = None, "lapsed"
        old._state.adding = True
        from effects.models.base import new_id

        old.pk = new_id()
        old.save(force_insert=True)
        old.votes.create(actor_id=f"user:{number}", decision="approve", digest_seen=old.digest, at=row.created_at)
        Attempt.objects.create(
            id=new_id(), execution=row, number=number, epoch=number, provider_key="k", payload_digest="d", approval=old,
            permitted_at=row.created_at, deadline=row.created_at, ended_at=row.created_at, outcome="not_applied",
        )  # fmt: skip
        Receipt.objects.create(
            execution=row, sequence=number + 1, event="reschedule", to_state="pending", revision=1, epoch=0,
            at=row.created_at,
        )  # fmt: skip

    hang(1)
    client.get(page_of(ref))
    first = count_queries(client, page_of(ref))
    for number in range(2, 21):
        hang(number)
    assert count_queries(client, page_of(ref)) == first


def test_no_list_counts_its_table(journal: Any, browser: Callable[[User], Client], ann: User) -> None:
    """Every COUNT of a list is bounded by a LIMIT."""
    journal(1, "a")
    client = browser(ann)
    for name in LISTS:
        with CaptureQueriesContext(connection) as queries:
            client.get(reverse(f"admin:{name}"))
        counts = [query["sql"] for query in queries if "COUNT(" in query["sql"]]
        assert all("LIMIT 1001" in sql for sql in counts), counts


def test_lists_say_that_they_are_cut(
    journal: Any, browser: Callable[[User], Client], ann: User, monkeypatch: Any
) -> None:
    """A list longer than the bound says so and shows the newest."""
    from effects_admin.filters import BoundedPaginator

    journal(2, "a")
    monkeypatch.setattr(BoundedPaginator, "LIMIT", 3)
    response = browser(ann).get(reverse("admin:effects_execution_changelist"))
    assert "The newest 3 executions; search or filter for older ones" in text_of(response)


@pytest.mark.parametrize(
    ("term", "found"),
    [("p-17", True), ("po_1", True), ("user:7", True), ("ref", True), ("p-1", False), ("bank", False)],
)
def test_search_is_exact(term: str, found: bool, browser: Callable[[User], Client], ann: User) -> None:
    """Search finds by ref, key, reference and subject, whole and not in part, and uses no LIKE."""
    outcome = effects.perform(PayOut, payload=Payout("DE89", 1), key="p-17", requested_by="clerk")
    request = make_request("r1")
    RequestExecution.objects.create(request=request, execution_id=outcome.ref, position=0, holds=True)
    with CaptureQueriesContext(connection) as queries:
        response = browser(ann).get(
            reverse("admin:effects_execution_changelist"), {"q": outcome.ref if term == "ref" else term}
        )
    assert (page_of(outcome.ref) in response.content.decode()) is found
    assert not any("LIKE" in query["sql"] for query in queries)


def test_lists_filter_by_the_machines_words(waiting: Any, doubtful: Any, browser: Any, ann: User) -> None:
    """A state, a group of states, an operation and a provider filter; an unknown word filters nothing."""
    first, second = waiting().ref, doubtful().ref
    address, client = reverse("admin:effects_execution_changelist"), browser(ann)

    def found(**query: str) -> set[str]:
        body = client.get(address, query).content.decode()
        return {ref for ref in (first, second) if page_of(ref) in body}

    assert found(state="awaiting_approval") == {first}
    assert found(state="in_doubt") == {second}
    assert found(state="nonsense") == {first, second}
    assert found(operation="console.pay_out", provider="bank/main", risk="high") == {first, second}
    assert found(provider="fax/main") == set()


def test_lists_offer_the_reasons_that_occur(
    waiting: Any, doubtful: Any, browser: Any, ann: User, monkeypatch: Any
) -> None:
    """Those of the newest rows and of what lasts in doubt, and the one of the address; of forty none that never was."""
    address, client = reverse("admin:effects_execution_changelist"), browser(ann)

    def offered(**query: str) -> set[str]:
        body = client.get(address, query).content.decode()
        return set(re.findall(r"[?&;]reason=(\w+)", body)) & {*ExecutionReason}

    assert offered() == set()
    doubtful()
    assert offered() == {"timeout"}
    newest = waiting().ref
    assert offered() == {"timeout", "approval_required"}
    effects.cancel(newest, by="clerk", reason="not wanted")
    monkeypatch.setattr(BoundedChangeList, "LOOK_BACK", 1)
    assert offered() == {"timeout", "cancelled"}
    assert offered(reason="declined") == {"timeout", "cancelled", "declined"}
    assert offered(reason="nonsense") == {"timeout", "cancelled"}


def test_lists_cannot_be_asked_about_payloads(
    waiting: Any, browser: Callable[[User], Client], ann: User, caplog: Any
) -> None:
    """A query parameter that is no filter's own is refused: it could ask what a payload holds."""
    waiting()
    response = browser(ann).get(reverse("admin:effects_execution_changelist"), {"payload__contains": "DE"})
    assert response.status_code == 400


def test_looking_changes_nothing(waiting: Any, doubtful: Any, browser: Any, person: Any) -> None:
    """GET and HEAD of every list, page and verb leave every row as it was, also for somebody who may do all."""
    every = ("approve", "look_up", "resolve", "reopen", "order_resend", "cancel")
    chief = person("chief", "view_payload", *(f"{verb}_execution" for verb in every))
    refs, request = [waiting().ref, doubtful().ref], make_request("r1")
    addresses = [reverse(f"admin:{name}") for name in LISTS]
    addresses += [page_of(ref) for ref in refs] + [verb_of(ref, verb) for ref in refs for verb in VERBS]
    addresses += [page_of(Approval.objects.get().pk, "approval"), page_of(Receipt.objects.first().pk, "receipt"),
                  page_of(request.pk, "request"), verb_of(request.pk, "resolve", "request"),
                  reverse("admin:app_list", args=["effects"])]  # fmt: skip
    Heartbeat.objects.create(sweep="run_due", at=request.created_at, counts={"sent": 1})
    before = [list(model.objects.order_by("pk").values()) for model in (Execution, Request, Approval, Receipt, Attempt)]
    client = browser(chief)
    for address in addresses:
        assert client.get(address).status_code == 200, address
        assert client.head(address).status_code == 200, address
    assert before == [
        list(model.objects.order_by("pk").values()) for model in (Execution, Request, Approval, Receipt, Attempt)
    ]


def test_pages_are_shown_to_whoever_may_view(waiting: Any, browser: Any, person: Any) -> None:
    """Without the view permission, and named by no rule, there is neither list nor page nor verb."""
    client = browser(person("eve", "resolve_execution", "view_payload", views=False))
    ref = waiting().ref
    addresses = [page_of(ref), verb_of(ref, "approve"), reverse("admin:effects_execution_changelist"),
                 reverse("admin:effects_needs_a_person")]  # fmt: skip
    assert {client.get(address).status_code for address in addresses} == {403}
    assert client.post(verb_of(ref, "approve")).status_code == 403


def test_strangers_are_sent_to_the_login(waiting: Any) -> None:
    """Somebody who is not logged in gets the login page, by GET and by POST."""
    ref = waiting().ref
    for response in (Client().get(page_of(ref)), Client().post(verb_of(ref, "approve"))):
        assert response.status_code == 302
        assert "/login/" in response["Location"]


def test_rows_are_neither_added_nor_changed_nor_deleted(waiting: Any, browser: Any) -> None:
    """A superuser too finds no form that adds, changes or deletes."""
    chief = User.objects.create_superuser("root", password="x")
    client, ref = browser(chief), waiting().ref
    assert client.get(reverse("admin:effects_execution_add")).status_code == 403
    assert client.post(reverse("admin:effects_execution_delete", args=[ref]), {"post": "yes"}).status_code == 403
    assert client.post(page_of(ref), {"state": "completed"}).status_code == 405
    assert client.post(page_of(Receipt.objects.first().pk, "receipt"), {"event": "x"}).status_code == 403
    assert Execution.objects.get(pk=ref).state == "awaiting_approval"


@pytest.mark.parametrize("address", ["nonsense", "00000000-0000-7000-8000-000000000000", "1/2"])
def test_unknown_rows_are_not_found(address: str, browser: Any, olga: User) -> None:
    """A ref that is none of ours is a 404, by page and by verb."""
    client = browser(olga)
    assert client.get(page_of(address)).status_code == 404
    assert client.post(verb_of(address, "resolve")).status_code == 404


def test_foreign_text_is_shown_and_never_run(waiting: Any, browser: Any, person: Any) -> None:
    """Markup, braces and invisible characters of payload, summary and provider are shown as text everywhere."""
    chief = person("chief", "approve_execution", "view_payload", "resolve_execution")
    ref = waiting(key=NASTY, account=NASTY, note=NASTY).ref
    failed = effects.Declined(NASTY, code=NASTY)
    with provider_says(PayOut, failed):
        other = effects.perform(PayOut, payload=Payout(NASTY, 1), key="f", requested_by=NASTY).ref
    client = browser(chief)
    addresses = [page_of(ref), verb_of(ref, "approve"), page_of(other), reverse("admin:effects_execution_changelist"),
                 reverse("admin:effects_approval_changelist"), reverse("admin:effects_receipt_changelist"),
                 reverse("admin:effects_needs_a_person"), page_of(Approval.objects.get().pk, "approval")]  # fmt: skip
    for address in addresses:
        body = client.get(address).content.decode()
        assert "<script>alert(1)" not in body, address
        assert "&lt;script&gt;alert(1)&lt;/script&gt;{}{0}%s" in body, address
        assert "\u202e" not in body, address


def test_payload_takes_its_permission(waiting: Any, browser: Any, ann: User, olga: User) -> None:
    """Without `effects.view_payload` payload and output are hidden, and the page says so."""
    ref = waiting(note="", account="DE89-secret").ref
    hidden, shown = browser(ann).get(page_of(ref)), browser(olga).get(page_of(ref))
    assert "takes the permission “effects.view_payload”" in text_of(hidden)
    assert '"account"' not in text_of(hidden)
    assert '"account": "DE89-secret"' in text_of(shown)
    assert '"account"' not in text_of(browser(ann).get(verb_of(ref, "approve")))


def test_evidence_from_outside_takes_the_payloads_permission(
    doubtful: Any, browser: Any, ann: User, olga: User
) -> None:
    """A webhook may repeat what was sent: without `effects.view_payload` only what our own verbs wrote is shown."""
    ref = doubtful().ref
    effects.observe(ref, reference="ch_9", evidence={"event": {"iban": "DE89-secret"}, "why": "a webhook"})
    receipt = Receipt.objects.get(execution_id=ref, event="observe")
    for address in (page_of(ref), page_of(receipt.pk, "receipt")):
        hidden, shown = text_of(browser(ann).get(address)), text_of(browser(olga).get(address))
        assert "DE89-secret" in shown, address
        assert "DE89-secret" not in hidden, address
        assert "ch_9" in hidden, address
        assert "a webhook" in hidden, address
        assert "seeing it takes the permission" in hidden, address


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://bank.example/p/ch_9?a=1&b=2", True),
        ("", False),
        ("javascript:alert(1)", False),
        (RuntimeError("the project's bug"), False),
    ],
)
def test_page_links_to_the_provider(
    address: Any, shown: bool, doubtful: Any, browser: Any, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the effect names an address of its reference; nothing but http, and a page without it where it raises."""

    def provider_url(self: Any, reference: str, *, tenant: str) -> str:
        if isinstance(address, Exception):
            raise address
        assert reference == "ch_9"
        return str(address)

    monkeypatch.setattr(PayOut, "provider_url", provider_url)
    ref = doubtful().ref
    effects.resolve(
        ref, decision="applied", revision=effects.get(ref).revision, by="olga", reason="r", reference="ch_9"
    )
    page = browser(ann).get(page_of(ref)).content.decode()
    link = 'href="https://bank.example/p/ch_9?a=1&amp;b=2" rel="noopener noreferrer"'
    assert (link in page) == shown
    assert "javascript:" not in page


def test_our_own_evidence_is_known(transactional_db: Any) -> None:
    """Whatever name a verb of ours writes is never hidden, but for the one that holds the provider's words."""
    everything()
    said = set().union(*(receipt.evidence for receipt in Receipt.objects.all()))
    assert {name for name in said if name not in _OURS} == {"proof"}


def test_answer_takes_the_payloads_permission(browser: Any, ann: User, olga: User) -> None:
    """Without `effects.view_payload` the stored answer of a request is hidden."""
    request = make_request("r1", "answered", answer_status=201, answer_body=b'{"iban": "DE1"}', answer_size=15)
    assert "DE1" not in text_of(browser(ann).get(page_of(request.pk, "request")))
    assert '{"iban": "DE1"}' in text_of(browser(olga).get(page_of(request.pk, "request")))


def test_page_says_what_happens_next(waiting: Any, doubtful: Any, browser: Any, ann: User) -> None:
    """The page names the state's meaning, what is missing, until when, and from when absence is evidence."""
    client = browser(ann)
    text = text_of(client.get(page_of(waiting(approvals=2).ref)))
    assert "People decide first; nothing is sent before." in text
    assert "It needs 2 more of 2 approvals, from those with the permission “effects.approve_execution”." in text
    assert "expires in 6 d 23 h" in text
    text = text_of(client.get(page_of(doubtful().ref)))
    assert "The provider is asked again now" in text
    assert "“not found” proves nothing before" in text
    assert "no answer in time" in text


def test_page_says_why_not(waiting: Any, browser: Any, ann: User) -> None:
    """Each verb that a person cannot use says why, in words."""
    text = text_of(browser(ann).get(page_of(waiting().ref)))
    assert "Look up now It takes the permission “effects.look_up_execution”, which you do not have." in text
    assert "Reopen It takes the permission “effects.reopen_execution”, which you do not have." in text


def test_queue_shows_what_one_may_decide(waiting: Any, browser: Any, ann: User, olga: User) -> None:
    """An approval is in the queue of whoever may decide it, and of nobody else."""
    ref, own = waiting(by="clerk").ref, waiting(key="p2", by=ann, account="own").ref
    anns = browser(ann).get(reverse("admin:effects_needs_a_person")).content.decode()
    assert page_of(ref) in anns
    assert page_of(own) not in anns
    assert page_of(ref) not in browser(olga).get(reverse("admin:effects_needs_a_person")).content.decode()


def test_queue_shows_requests_and_rows_in_doubt(doubtful: Any, browser: Any, olga: User) -> None:
    """What needs a person is listed with its age: executions, requests, hooks that could not run."""
    from django.utils import timezone

    ref, unwritten, request = doubtful().ref, doubtful("d2").ref, make_request("r1")
    now = timezone.now()
    Execution.objects.filter(pk=ref).update(state="needs_intervention", reason="budget_spent")
    Execution.objects.filter(pk=unwritten).update(
        state="completed", settled_at=now, ages_from=now, hook_due_at=now, hook_error="ValueError: no such order"
    )
    response = browser(olga).get(reverse("admin:effects_needs_a_person"))
    body, text = response.content.decode(), text_of(response)
    assert page_of(ref) in body
    assert page_of(request.pk, "request") in body
    assert "the look-ups could not decide" in text
    assert "ValueError: no such order" in text
    assert reverse("admin:effects_needs_a_person") in browser(olga).get("/admin/effects/").content.decode()


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("admin:app_list", ["Needs a person"]),
        ("admin:effects_needs_a_person", ["Needs a person"]),
        ("admin:effects_request_changelist", ["Requests"]),
    ],
)
def test_a_tab_says_where_one_is(address: str, here: list[str], browser: Any, ann: User) -> None:
    """The tab of the page that is open is marked; the app's own page is the queue."""
    arguments = ["effects"] if address == "admin:app_list" else []
    page = browser(ann).get(reverse(address, args=arguments)).content.decode()
    assert re.findall(r'aria-current="page">([^<]+)</a></li>', page) == here
