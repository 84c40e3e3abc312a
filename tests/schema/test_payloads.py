"""The schema of a payload allows what the payload's class is built from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace
from typing import Any, Literal
from uuid import UUID

import jsonschema
import pytest
from drf_spectacular.settings import spectacular_settings

from effects.http.schema_payloads import payload_schema
from effects.vocabulary.canonical import hydrate
from effects.vocabulary.exceptions import PayloadError


class Colour(Enum):
    RED = "red"
    HALF = Decimal("0.5")


@dataclass(frozen=True)
class Line:
    text: str
    price: Decimal = Decimal(0)


@dataclass(frozen=True)
class Payload:
    count: int = field(default=1, metadata={"schema": {"minimum": 1}})
    yes: bool = True
    ref: UUID | None = None
    day: date | None = None
    at: datetime | None = None
    colour: Colour = Colour.RED
    kind: Literal["a", 1] = "a"
    either: int | str = 0
    nothing: None = None
    lines: Sequence[Line] = ()
    words: tuple[str, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)
    anything: Any = None
    inner: Payload | None = None


SAMPLES: list[dict[str, Any]] = [
    {}, {"count": 3}, {"count": "3"}, {"count": True}, {"yes": 1}, {"yes": False}, {"ref": None},
    {"ref": "00000000-0000-7000-8000-000000000000"}, {"ref": 5}, {"day": "2026-01-31"}, {"day": 5},
    {"at": "2026-01-31T10:00:00Z"}, {"at": 5}, {"colour": "red"}, {"colour": "0.5"}, {"colour": "blue"}, {"kind": 1},
    {"kind": "b"}, {"either": "x"}, {"either": []}, {"nothing": None}, {"nothing": 0}, {"lines": [{"text": "x"}]},
    {"lines": [{"text": "x", "price": "1.50"}]}, {"lines": [{"text": "x", "price": 1}]}, {"lines": [{}]},
    {"lines": {}}, {"words": ["x"]}, {"words": [1]}, {"notes": {"x": 1}}, {"notes": {"x": "1"}}, {"other": 1},
    {"anything": [{"x": None}]}, {"inner": None}, {"inner": 5, "count": "x"},
]  # fmt: skip


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_a_payload_fits_its_schema_if_it_can_be_built(sample: dict[str, Any], monkeypatch: Any) -> None:
    """For each type that a payload may hold; null is said as the version of OpenAPI has it."""
    effect: Any = SimpleNamespace(payload_type=Payload)
    assert payload_schema(effect)["properties"]["ref"]["nullable"] is True
    monkeypatch.setattr(spectacular_settings, "OAS_VERSION", "3.1.0")
    try:
        hydrate(Payload, sample)
        built = True
    except PayloadError:
        built = False
    assert jsonschema.Draft202012Validator(payload_schema(effect)).is_valid(sample) is built


def test_a_field_says_what_its_type_cannot() -> None:
    """By its metadata; a class within itself is left open."""
    properties = payload_schema(SimpleNamespace(payload_type=Payload))["properties"]  # type: ignore[arg-type]
    assert properties["count"] == {"type": "integer", "minimum": 1}
    assert properties["inner"] == {"nullable": True}
