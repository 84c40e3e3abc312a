"""The cookbook's recipes, as they stand on the page, each with its good way and with what interrupts it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cookbook.played import RECIPES
from tests.docs.blocks import migrated_database, run_blocks
from tests.docs.test_blocks import COOKBOOK, TUTORIAL

#: Recipes that are pages of their own, followed by `tests.ninja` and `tests.tenants`.
LINKED = "Other frameworks"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with the tables of the tutorial's project, except its shop's."""
    with migrated_database(tmp_path_factory.mktemp("template"), os.environ["DATABASE_URL"], TUTORIAL) as name:
        yield name


def test_each_recipe_is_played():
    """What is played is what the page has, in its order."""
    headings = re.findall(r"^## (.+)$", COOKBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [*RECIPES, LINKED]


def test_the_recipes_do_what_they_say(tmp_path: Path, template: str):
    """Each recipe sends once and forgets nothing: done twice, with a reply lost, and killed at the worst places."""
    run_blocks(COOKBOOK, tmp_path, os.environ["DATABASE_URL"], on=[TUTORIAL], template=template)
