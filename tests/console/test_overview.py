"""The overview and the narrowed queue: the right numbers, bounded, with a constant number of queries."""

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

import effects
from effects.models import Attempt, Execution, Heartbeat
from effects.models.base import new_id
from effects.testing import provider_says
from effects.transitions.intents import binding_of
from effects_admin import filters, overview
from tests.console.declared import Charge, PayOut, Payout
from tests.console.pages import page_of, text_of
from tests.console.scene import make_request

pytestmark = pytest.mark.django_db
LISTS = ["effects_execution_changelist", "effects_request_changelist", "effects_approval_changelist",
         "effects_receipt_changelist", "effects_needs_a_person", "effects_overview"]  # fmt: skip


@pytest.fixture
def overviewed(browser: Any, ann: User) -> Callable[[], Any]:
    """Open the overview."""
    return lambda: browser(ann).get(reverse("admin:effects_overview"))


def standing(response: Any, title: str) -> Any:
    both = [*response.context["executions"], *response.context["requests"]]
    return next(each for each in both if each.title == title)


def copies(ref: str, count: int) -> None:
    """Multiply an execution."""
    row = Execution.objects.get(pk=ref)
    rows = []
    for number in range(count):
        row.pk, row.key = new_id(), f"copy-{number}"
        row.binding, row.provider_key = binding_of(row.tenant, row.operation, row.key), f"copy-{number}"
        rows.append(Execution(**{field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}))
    Execution.objects.bulk_create(rows)


def test_states_are_counted_with_age_and_worth(waiting: Any, doubtful: Any, overviewed: Any) -> None:
    """Each open state says how many, since when the oldest, and how much is at stake for each currency."""
    waiting("w1", amount=100_00)
    old = waiting("w2", amount=200_00).ref
    Execution.objects.filter(pk=old).update(created_at=F("created_at") - timedelta(hours=3, minutes=1), currency="JPY")
    doubtful()
    response = overviewed()
    shown = standing(response, "awaiting approval")
    assert (shown.count, shown.oldest, shown.at_stake) == ("2", "3 h", ["100.00 EUR", "20,000 JPY"])
    assert standing(response, "uncertain").at_stake == ["50.00 EUR"]
    assert standing(response, "executing").is_none
    assert standing(response, "approval undecided").count == "2"


def test_counting_stops(doubtful: Any, overviewed: Any, monkeypatch: Any) -> None:
    """A state with more rows than are counted says so, and claims no total."""
    copies(doubtful().ref, 5)
    monkeypatch.setattr(overview, "COUNTED", 4)
    shown = standing(overviewed(), "uncertain")
    assert (shown.count, shown.at_stake) == ("4+", [])


def test_providers_are_judged_by_their_newest_sends(overviewed: Any) -> None:
    """A provider that mostly leaves doubt, one that mostly refuses and one that answers are told apart."""
    for number in range(3):
        with provider_says(PayOut, TimeoutError() if number else effects.Applied({}, "po")):
            effects.perform(PayOut, payload=Payout("DE89", 1), key=f"p{number}")
        with provider_says(Charge, effects.Declined("no") if number else effects.Applied({}, "ch")):
            effects.perform(Charge, payload={"order": "A", "amount": 1}, key=f"c{number}")
    bank, cards = overviewed().context["health"]
    assert (bank.provider, bank.sends, bank.happened, bank.unknown) == ("bank/main", 3, 1, 2)
    assert bank.verdict == ("mostly in doubt", "alarm")
    assert (cards.refused, cards.verdict) == (2, ("mostly refusing", "doubt"))


def test_old_failures_are_no_present_trouble(overviewed: Any, monkeypatch: Any) -> None:
    """Only the newest sends count: a provider that recovered is not shown as failing."""
    monkeypatch.setattr(overview, "SENDS", 2)
    for number in range(4):
        with provider_says(PayOut, TimeoutError() if number < 2 else effects.Applied({}, "po")):
            effects.perform(PayOut, payload=Payout("DE89", 1), key=f"p{number}")
    (bank,) = overviewed().context["health"]
    assert (bank.sends, bank.verdict) == (2, ("answers", "good"))


def test_silent_sweeps_are_marked(overviewed: Any) -> None:
    """A sweep that has given no sign of life for minutes says so in a word."""
    now = timezone.now()
    Heartbeat.objects.create(sweep="run_due", at=now, counts={"sent": 1})
    Heartbeat.objects.create(sweep="look_up_due", at=now - timedelta(hours=1))
    text = text_of(overviewed())
    assert "look_up_due silent 1 h" in text
    assert "run_due silent" not in text


def test_chart_counts_what_is_there(doubtful: Any, overviewed: Any) -> None:
    """The chart's bars add up to the executions, each in the bar of its time and the series of its state."""
    effects.perform(PayOut, payload=Payout("DE89", 1), key="now")
    for number, hours in enumerate((1, 5, 5)):
        ref = doubtful(f"d{number}").ref
        Execution.objects.filter(pk=ref).update(created_at=F("created_at") - timedelta(hours=hours))
    chart = overviewed().context["charts"][0]
    sums = {name: sum(numbers[i] for _, numbers in chart.rows) for i, (name, _) in enumerate(chart.series)}
    assert sums == {"happened": 1, "did not happen": 0, "in doubt": 3, "open": 0}
    assert max(numbers[2] for _, numbers in chart.rows) == 2
    times = [at for at, _ in chart.rows]
    assert {later - at for at, later in pairwise(times)} == {chart.step}
    assert len(times) <= overview.BARS + 1


def test_chart_is_of_the_newest_alone(doubtful: Any, overviewed: Any, monkeypatch: Any) -> None:
    """With more executions than are charted the oldest are left out, and the page says so."""
    monkeypatch.setattr(overview, "CHARTED", 2)
    for number in range(5):
        doubtful(f"d{number}")
    chart = overviewed().context["charts"][0]
    assert sum(sum(numbers) for _, numbers in chart.rows) == 2
    assert chart.note.startswith("The newest 2, ")


@pytest.mark.parametrize("name", LISTS)
def test_pages_cost_the_same_with_500_rows(name: str, waiting: Any, doubtful: Any, browser: Any, ann: User) -> None:
    """Every list and the overview take as many queries for 500 rows as for 10, and count no table."""
    client, address = browser(ann), reverse(f"admin:{name}")
    for number in range(10):
        waiting(f"w{number}"), make_request(f"r{number}")
    client.get(address)
    counts = []
    for more in (0, 490):
        copies(doubtful(f"d{more}").ref, more)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(address).status_code == 200
        counts.append(len(queries))
        assert all(
            "LIMIT" in query["sql"] or "GROUP BY" in query["sql"] for query in queries if "COUNT(" in query["sql"]
        )
    assert counts[0] == counts[1]


def test_filters_without_an_index_look_through_the_newest(
    doubtful: Any, browser: Any, ann: User, monkeypatch: Any
) -> None:
    """A filter that no index answers finds among the newest rows alone, and says so; an age reaches older ones."""
    monkeypatch.setattr(filters.BoundedChangeList, "LOOK_BACK", 2)
    refs = [doubtful(f"d{number}").ref for number in range(4)]
    for number, ref in enumerate(refs):
        Execution.objects.filter(pk=ref).update(created_at=F("created_at") - timedelta(hours=2 * (4 - number)))
    client, address = browser(ann), reverse("admin:effects_execution_changelist")

    def found(**query: str) -> list[int]:
        body = client.get(address, query).content.decode()
        return [number for number, ref in enumerate(refs) if page_of(ref) in body]

    assert found(provider="bank/main") == [2, 3]
    assert found(provider="bank/main", age="over-hour") == [2, 3]
    Execution.objects.filter(pk__in=refs[2:]).update(created_at=timezone.now())
    assert found(provider="bank/main", age="over-hour") == [0, 1]
    assert found(provider="bank/main", state="uncertain") == [0, 1, 2, 3]
    assert found() == [0, 1, 2, 3]
    text = text_of(client.get(address, {"provider": "bank/main"}))
    assert "among the newest 2; to see older ones choose an age, or search" in text


def test_lists_filter_by_amount_in_whole_units(waiting: Any, browser: Any, ann: User) -> None:
    """1,000 or more means 1,000.00 euros, 1,000 yen and 1,000.000 dinars."""
    refs = {}
    for currency, amount in (
        ("eur", 99_999),
        ("EUR", 100_000),
        ("jpy", 1_000),
        ("JPY", 999),
        ("kwd", 1_000_000),
        ("KWD", 999_999),
    ):
        refs[currency, amount] = waiting(f"{currency}{amount}").ref
        Execution.objects.filter(pk=refs[currency, amount]).update(currency=currency, amount=amount)
    body = browser(ann).get(reverse("admin:effects_execution_changelist"), {"amount": "1000"}).content.decode()
    found = {key for key, ref in refs.items() if page_of(ref) in body}
    assert found == {("EUR", 100_000), ("jpy", 1_000), ("kwd", 1_000_000)}


@pytest.mark.parametrize(
    ("query", "found"),
    [({}, "wd r"), ({"operation": "console.pay_out"}, "wd"), ({"operation": "payments.refund_order"}, "r"),
     ({"provider": "bank/main"}, "wd"), ({"provider": "cards/main"}, ""), ({"state": "needs_intervention"}, "d"),
     ({"reason": "budget_spent"}, "d"), ({"reason": "handler_failed"}, "r"), ({"amount": "1000"}, "w"),
     ({"age": "over-hour"}, "d"), ({"age": "under-hour"}, "w r"), ({"q": "d1"}, "d"), ({"q": "user:7"}, "r"),
     ({"q": "d"}, ""), ({"provider": "nonsense"}, ""), ({"state": "nonsense"}, "wd r"), ({"q": "  "}, "wd r"),
     ({"age": "x", "amount": "1"}, "wd r")],
)  # fmt: skip
def test_queue_is_narrowed(
    query: dict[str, str], found: str, waiting: Any, doubtful: Any, browser: Any, ann: User
) -> None:
    """Each filter and the exact search narrow every section of the queue; what is no word narrows nothing."""
    refs = {"w": page_of(waiting("w1", amount=5_000_00).ref), "d": page_of(doubtful("d1").ref)}
    request = make_request("r1")
    type(request).objects.update(operation="payments.refund_order")
    refs["r"] = page_of(request.pk, "request")
    Execution.objects.filter(key="d1").update(
        state="needs_intervention", reason="budget_spent", due_at=None, created_at=F("created_at") - timedelta(hours=2)
    )
    body = browser(ann).get(reverse("admin:effects_needs_a_person"), query).content.decode()
    assert {name for name, address in refs.items() if f'href="{address}"' in body} == set(found) - {" "}


def test_overview_takes_the_view_permission(browser: Any, person: Any) -> None:
    """Without it there is neither overview nor queue, and the app's own page shows what Django's does."""
    client = browser(person("eve", "approve_execution", "view_receipt", views=False))
    assert client.get(reverse("admin:effects_overview")).status_code == 403
    assert client.post(reverse("admin:effects_overview")).status_code == 405
    text = text_of(client.get("/admin/effects/"))
    assert "Needs a person" not in text
    assert "Receipts" in text


def test_attempts_are_in_the_order_of_their_ids() -> None:
    """The newest sends are found by their ids, which are made in the order of time."""
    ids = [new_id() for _ in range(50)]
    assert ids == sorted(ids)
    assert Attempt._meta.pk.name == "id"
