"""The page on what can still go wrong says what the model prints."""

from __future__ import annotations

from tests.model.traces import PAGE, write


def test_the_page_has_the_traces_that_the_model_prints() -> None:
    """`python -m tests.model.traces` writes them."""
    page = PAGE.read_text(encoding="utf-8")
    assert write(page) == page
