"""The code of the documentation runs, as it stands on the page, against a real database."""

from pathlib import Path

import pytest
from django.conf import settings
from tests.docs.blocks import ROOT, read_blocks, run_blocks

DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorial" / "first-effect.md"
#: Pages with code, and the pages whose project they go on with.
PAGES = {TUTORIAL: ()} | {
    page: (TUTORIAL,)
    for page in sorted([*DOCS.glob("guides/*.md"), *DOCS.glob("reference/*.md"), *DOCS.glob("explanation/*.md")])
    if any(block.kind in {"python", "norun", "run", "console"} for block in read_blocks(page))
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_code_of_a_page_does_what_the_page_says(page: Path, tmp_path: Path):
    """Every block of the page runs, and prints what the page shows."""
    run_blocks(page, tmp_path, _database_url(), on=PAGES[page])


def _database_url() -> str:
    import os

    return os.environ["DATABASE_URL"]
