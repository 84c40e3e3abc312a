"""What a browser or a client may send in the place of what is expected, for tests that send it everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

__all__ = ["DEEP", "FEW", "JSON_TEXTS", "TEXTS", "encoded"]

#: The same examples in each run: a finding of yesterday is one of today.
FEW = settings(
    max_examples=25, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip

DEEP = ["[" * 100_000, "[" * 900 + "]" * 900, '{"a":' * 5_000 + "1" + "}" * 5_000, "[" * 5_000 + "1" + "]" * 5_000]
_NUMBERS = [
    "0", "-1", "1.5", "1e5", "1e999999", "NaN", "-Infinity", "9" * 30, "9" * 5_000, str(2**63), str(-(2**63) - 1),
    str(2**31), "٣", "1_000", " 7 ", "+1", "0x10", "\uff11",
]  # fmt: skip
_DATES = ["2026-02-30", "0000-00-00", "10000-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "2026-01-01T25:61:61Z"]
_NAMES = [
    "", " ", "\x00", "a\x00b", "\ud800", "a\udfffb", "\udc80", "\ufffe", "\uffff", "\u202e", "\u200b", "\x1b[2J",
    "\r\n", "'", '"', "'; DROP TABLE effects_request; --", "%s %(a)s {0}", "../../etc/passwd", "<script>", "🙂" * 300,
    "x" * 70_000, "true", "null", "undefined", "on", "__all__", "state__in", "id__exact",
]  # fmt: skip
_IDS = [
    "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "00000000-0000-0000-0000-00000000000g",
    "{00000000-0000-0000-0000-000000000000}", "urn:uuid:00000000-0000-0000-0000-000000000000", "0" * 32, ":", ":::",
    "::::", "00000000-0000-0000-0000-000000000000:1::\x00", "00000000-0000-0000-0000-000000000000:" + "9" * 40 + "::",
    "00000000-0000-0000-0000-000000000000:1:x:", "00000000-0000-0000-0000-000000000000:\uff11::\ud800",
]  # fmt: skip
_JSON = [
    '"\\ud800"', '"\\u0000"', '{"a":1,"a":2}', "[1e400]", "{}", "[]", "[null]", '{"\\udc00":1}', "{'a':1}", '{"a":NaN}',
    '"' + "x" * 3000 + '"', '{"output":{"":{"":[]}}}', "1" * 4000, '[9007199254740993]', '{"__effects_secret__":"a"}',
]  # fmt: skip

TEXTS = st.sampled_from([*_NAMES, *_NUMBERS, *_DATES, *_IDS, *_JSON, *DEEP]) | st.text(
    st.characters(codec=None, exclude_categories=()), max_size=20
)
"""Any of them, and any text at all."""

JSON_TEXTS = st.sampled_from([*_JSON, *DEEP, *_NUMBERS])
"""Texts that look like JSON."""


def encoded(fields: Mapping[str, Any] | Sequence[tuple[str, Any]]) -> str:
    """Write fields as a form or a query does, whatever they hold; a list is a name that is sent several times."""
    pairs = fields.items() if isinstance(fields, Mapping) else fields
    every = [(name, value) for name, values in pairs for value in (values if isinstance(values, list) else [values])]
    return "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in every)


def _quoted(value: Any) -> str:
    return quote(value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass"), safe="")
