"""How every page looks and sounds: both schemes, a phone, a keyboard, no scripts; and the pictures of the docs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from effects.models import Approval, Receipt
from tests.console.chromium import PHONE, Person
from tests.console.pages import page_of, verb_of
from tests.console.scene import Scene

pytestmark = pytest.mark.django_db(transaction=True)
Seat = Callable[..., Person]
EVERY = ("approve", "look_up", "resolve", "reopen", "order_resend", "cancel", "compensate", "supersede")
#: What a scheme can change.
ABOUT_COLOURS = ("color-contrast", "link-in-text-block")
IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"


@pytest.fixture
def chief(person: Callable[..., User]) -> User:
    """Somebody who may do everything."""
    return person("chief", "view_payload", *(f"{verb}_execution" for verb in EVERY))


@pytest.fixture
def scene(ann: User, ben: User, chief: User) -> Scene:
    """Something in every state."""
    return Scene(ann, ben)


def pages(scene: Scene) -> dict[str, str]:
    """Return the address of every kind of page."""
    approval = Approval.objects.get(execution_id=scene.waiting[1])
    several = "&".join(f"ref={ref}" for ref in scene.waiting)
    return {
        "app": "/admin/effects/",
        "queue": reverse("admin:effects_needs_a_person"),
        "narrowed queue": reverse("admin:effects_needs_a_person") + "?provider=bank/main&amount=100",
        "overview": reverse("admin:effects_overview"),
        "executions": reverse("admin:effects_execution_changelist"),
        "filtered executions": reverse("admin:effects_execution_changelist") + "?state=in_doubt&age=over-hour",
        "approvals": reverse("admin:effects_approval_changelist"),
        "requests": reverse("admin:effects_request_changelist"),
        "receipts": reverse("admin:effects_receipt_changelist"),
        "execution": page_of(scene.uncertain),
        "waiting execution": page_of(scene.waiting[0]),
        "hopeless execution": page_of(scene.hopeless),
        "settled execution": page_of(scene.completed[0]),
        "approval": page_of(approval.pk, "approval"),
        "request": page_of(scene.request.pk, "request"),
        "receipt": page_of(Receipt.objects.latest("pk").pk, "receipt"),
        "approve": verb_of(scene.waiting[1], "approve"),
        "approve what cannot be": verb_of(scene.hopeless, "approve"),
        "deny": verb_of(scene.waiting[1], "deny"),
        "look-up": verb_of(scene.uncertain, "look-up"),
        "resolve": verb_of(scene.hopeless, "resolve"),
        "reopen": verb_of(scene.hopeless, "reopen"),
        "order-resend": verb_of(scene.hopeless, "order-resend"),
        "withdraw": verb_of(scene.waiting[1], "withdraw"),
        "cancel": verb_of(scene.pending, "cancel"),
        "compensate": verb_of(scene.completed[1], "compensate"),
        "supersede": verb_of(scene.declined[0], "supersede"),
        "resolve request": verb_of(scene.request.pk, "resolve", "request"),
        "bulk approve": reverse("admin:effects_bulk_approve") + "?" + several,
        "bulk look-up": reverse("admin:effects_bulk_look_up") + f"?ref={scene.uncertain}&ref={scene.hopeless}",
        "bulk without rows": reverse("admin:effects_bulk_approve"),
    }


def test_nobody_is_kept_out(seat: Seat, scene: Scene, chief: User) -> None:
    """axe-core finds no serious or critical violation on any page, in the light and in the dark scheme."""
    chiefs = seat(chief)
    found: dict[tuple[str, str], list[str]] = {}
    for name, address in pages(scene).items():
        chiefs.prefers("light").opens(address)
        assert chiefs.status in (200, 400), name
        found[name, "light"] = chiefs.barriers()
        found[name, "dark"] = chiefs.prefers("dark").barriers(*ABOUT_COLOURS)
    assert {place: barriers for place, barriers in found.items() if barriers} == {}


def test_pictures_for_the_docs(seat: Seat, scene: Scene, chief: User, pytestconfig: Any) -> None:
    """The six main pages can be photographed; `--pictures` writes them into docs/images."""
    places = pages(scene)
    main = {"queue": "queue", "overview": "overview", "executions": "executions", "execution": "hopeless execution",
            "approve": "approve", "bulk-approve": "bulk approve"}  # fmt: skip
    chiefs = seat(chief)
    for name, page in main.items():
        chiefs.opens(places[page])
        assert chiefs.status == 200
        if pytestconfig.getoption("--pictures"):
            IMAGES.mkdir(exist_ok=True)
            chiefs.photographs(IMAGES / f"console-{name}.png", whole=name != "executions")


def test_a_phone_shows_every_page(seat: Seat, scene: Scene, chief: User) -> None:
    """At the width of a phone no page scrolls sideways: wide tables scroll in their own box."""
    chiefs = seat(chief, size=PHONE)
    too_wide = {}
    for name, address in pages(scene).items():
        pixels = chiefs.opens(address).overflows()
        if pixels > 0:
            too_wide[name] = pixels
    assert too_wide == {}


def test_the_admins_own_switch_changes_the_scheme(seat: Seat, scene: Scene, chief: User) -> None:
    """Django's theme toggle leads through dark and light as the system's setting does; the charts follow."""
    chiefs = seat(chief).opens(pages(scene)["overview"])
    seen = {}
    for theme in ("dark", "light"):
        chiefs.evaluates(f"document.documentElement.dataset.theme = '{theme}'")
        assert chiefs.barriers(*ABOUT_COLOURS) == []
        seen[theme] = chiefs.evaluates(
            "[getComputedStyle(document.querySelector('.fx-state')).backgroundColor,"
            " document.querySelector('.fx-chart canvas').toDataURL()]"
        )
    assert seen["dark"][0] != seen["light"][0]
    assert seen["dark"][1] != seen["light"][1]


def test_charts_have_their_numbers_beside_them(seat: Seat, scene: Scene, chief: User) -> None:
    """Each chart is drawn, and its table has the numbers that it was drawn from, with scripts and without."""
    address = pages(scene)["overview"]
    chiefs, plain = seat(chief).opens(address), seat(chief, scripts=False).opens(address)
    assert chiefs.sees(".fx-chart canvas") == 2
    assert plain.sees(".fx-chart canvas") == 0
    script = """[...document.querySelectorAll('#recorded ~ details tbody tr, #durations ~ details tbody tr')].map(
        row => [...row.cells].slice(1).map(cell => parseFloat(cell.innerText)))"""
    data = """['recorded', 'durations'].flatMap(name => {
        const it = JSON.parse(document.getElementById(name + '-data').textContent);
        return it.times.map((_, i) => it.columns.map(column => column[i])).reverse();
    })"""
    chiefs.evaluates("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert chiefs.evaluates(script) == chiefs.evaluates(data) != []
    assert plain.sees(".fx-numbers tbody tr") == chiefs.sees(".fx-numbers tbody tr")
