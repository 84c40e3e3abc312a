"""The code of the documentation runs, as it stands on the page, against a real database."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, migrated_database, read_blocks, run_blocks

DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorial" / "first-effect.md"
CODE = {page: read_blocks(page) for page in sorted(DOCS.rglob("*.md"))}
#: A project of its own, which `tests.tenants` follows.
TENANTS = DOCS / "guides" / "django-tenants.md"
#: The recipes, which `tests.cookbook` plays.
COOKBOOK = DOCS / "guides" / "cookbook.md"
#: Pages with code that runs, and goes on with the tutorial's project.
GUIDES = [
    page
    for page, blocks in CODE.items()
    if page not in (TUTORIAL, TENANTS, COOKBOOK) and any(block.kind in {"python", "run", "console"} for block in blocks)
]
UNRUN = [(page, block) for page, blocks in CODE.items() for block in blocks if block.kind == "norun"]


def name_of(value: object) -> str:
    """Return how a parameter is called: a page by its path, a block by its line."""
    return str(value.relative_to(DOCS)) if isinstance(value, Path) else f"line-{value.line}"  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with the tables of the tutorial's project, except its shop's."""
    with migrated_database(tmp_path_factory.mktemp("template"), os.environ["DATABASE_URL"], TUTORIAL) as name:
        yield name


def test_the_tutorial_does_what_it_says(tmp_path: Path):
    """A reader who follows the page, from an empty database on, sees what it shows."""
    run_blocks(TUTORIAL, tmp_path, os.environ["DATABASE_URL"])


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_the_code_of_a_page_does_what_it_says(page: Path, tmp_path: Path, template: str):
    """Every block of the page runs after the tutorial, and prints what the page shows."""
    run_blocks(page, tmp_path, os.environ["DATABASE_URL"], on=[TUTORIAL], template=template)


@pytest.mark.parametrize(("page", "block"), UNRUN, ids=name_of)
def test_code_that_is_only_shown_is_python(page: Path, block):
    """A block that stands for a part of a file compiles."""
    compile(block.text, str(page), "exec")


@pytest.mark.parametrize("page", [ROOT / "README.md", *CODE], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_block_names_its_file(page: Path):
    """The text right before a block, or its first line, names the file it belongs to: GitHub shows no block's title."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block in read_blocks(page):
        before = "\n".join(lines[: block.line - 2]).rstrip().rpartition("\n\n")[2]
        named = f"`{block.title}`" in before or block.text.startswith(f"# {block.title}\n")
        assert named or not block.title, f"line {block.line}: nobody reads that this belongs to {block.title}"
