"""The guide for django-tenants, and what it leaves unsaid, in a project and on a database of its own."""

import os
from pathlib import Path

from tests.docs.blocks import read_blocks, run_blocks
from tests.docs.test_blocks import TENANTS

MORE = Path(__file__).with_name("more.md")


def test_a_journal_in_each_schema(tmp_path: Path) -> None:
    """Keys, ids, sweeps, orphans, lease renewals and look-ups of two tenants in one process keep to their schemas."""
    page = tmp_path / "page.md"
    page.write_text(TENANTS.read_text() + MORE.read_text())
    assert len(read_blocks(page)) > len(read_blocks(TENANTS))
    project = tmp_path / "project"
    project.mkdir()
    run_blocks(page, project, os.environ["DATABASE_URL"])
