"""Nobody is kept out: axe-core looks at every page, in the light scheme and in the dark one."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User

from tests.console.chromium import ABOUT_COLOURS, Person
from tests.console.scene import Scene, pages

pytestmark = pytest.mark.django_db(transaction=True)
#: One page of each template: the others differ in their words, not in their colours.
EVERY_TEMPLATE = frozenset({
    "queue", "overview", "executions", "filtered executions", "receipts", "hopeless execution", "approval", "request",
    "receipt", "approve", "approve what cannot be", "resolve", "bulk approve", "bulk without rows",
})  # fmt: skip


def test_nobody_is_kept_out(seat: Callable[..., Person], scene: Scene, chief: User) -> None:
    """axe-core finds no serious or critical violation on any page, in the light and in the dark scheme."""
    chiefs = seat(chief)
    found: dict[tuple[str, str], list[str]] = {}
    for name, address in pages(scene).items():
        chiefs.prefers("light").opens(address)
        assert chiefs.status in (200, 400), name
        found[name, "light"] = chiefs.barriers()
        if name in EVERY_TEMPLATE:
            found[name, "dark"] = chiefs.prefers("dark").barriers(*ABOUT_COLOURS)
    assert {place: barriers for place, barriers in found.items() if barriers} == {}
