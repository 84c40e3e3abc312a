"""How the pages look: on a phone, in both schemes, with its charts; and the pictures of the docs."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from effects.models import Execution
from tests.console.chromium import ABOUT_COLOURS, PHONE, Person
from tests.console.scene import Scene, pages

pytestmark = pytest.mark.django_db(transaction=True)
Seat = Callable[..., Person]
IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
#: The text of each cell that is narrower than its text.
CROWDED = """[...document.querySelectorAll('#content td, #content th')]
  .filter(cell => cell.offsetParent && cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.innerText)"""


def test_pictures_for_the_docs(seat: Seat, scene: Scene, chief: User, pytestconfig: Any) -> None:
    """The six main pages can be photographed; `--pictures` writes them into docs/images."""
    # as the sweeps leave it: looked up, and due again later
    Execution.objects.filter(pk=scene.uncertain).update(due_at=timezone.now() + timedelta(minutes=1))
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


def test_no_cell_of_a_table_runs_into_the_next(seat: Seat, scene: Scene, chief: User) -> None:
    """On a desk, what stands in a cell of a table fits into it, also on the first page, which is Django's dashboard."""
    chiefs = seat(chief)
    places = pages(scene)
    too_wide = {}
    for name in ("app", "queue", "overview", "executions", "approvals", "requests", "receipts", "waiting execution"):
        cells = chiefs.opens(places[name]).evaluates(CROWDED)
        if cells:
            too_wide[name] = cells
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
