"""The values of declarations: what cannot work is refused where it is written down."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import effects
from effects.vocabulary.types import Actor, readable_instant


@pytest.mark.parametrize("build", [
    lambda: effects.Eventual(quiet=timedelta.max),
    lambda: effects.Authoritative(quiet=-timedelta(seconds=1)),
    lambda: effects.Deduplication(lifetime=timedelta.max),
    lambda: effects.Deduplication(lifetime=timedelta(0)),
    lambda: effects.Deduplication(lifetime=86400),  # type: ignore[arg-type]
    lambda: effects.Retry(ceiling=timedelta.max),
    lambda: effects.Retry(first=-timedelta(seconds=1)),
    lambda: effects.ApprovalRule("a.b", decide_within=timedelta.max),
    lambda: effects.ApprovalRule("a.b", use_within=timedelta(0)),
    lambda: effects.ApprovalRule("a.b", not_before=datetime(2030, 1, 1)),
    lambda: effects.ApprovalRule("a.b", not_before=datetime.max.replace(tzinfo=timezone.utc)),
])  # fmt: skip
def test_a_duration_that_leads_out_of_the_calendar_is_refused_at_once(build: Any) -> None:
    """Not when an outcome is recorded under it, which would then fail for ever."""
    with pytest.raises(ValueError, match=r"takes a timedelta|needs a time zone"):
        build()


def test_a_century_is_long_enough() -> None:
    """For "for ever"."""
    assert effects.Deduplication(lifetime=timedelta(days=36_525)).lifetime.days == 36_525


def test_an_instant_is_read_in_utc_or_not_at_all() -> None:
    """One that PostgreSQL keeps and Python cannot read back would make a row unreadable."""
    east = timezone(timedelta(hours=12))
    assert readable_instant(datetime(2030, 1, 1, 12, tzinfo=east)) == datetime(2030, 1, 1, tzinfo=timezone.utc)
    for odd in (None, "soon", 5, datetime(2030, 1, 1), datetime.min.replace(tzinfo=east)):
        assert readable_instant(odd) is None


def test_an_empty_name_names_nobody() -> None:
    """An absent header is no person."""
    assert Actor.of("") is None
    assert Actor.of(" ") is None
    assert Actor.of("ann") == Actor("ann", "ann")
