"""Payloads as canonical text and back, and foreign text made storable."""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from types import FrameType
from typing import Any, ClassVar, Literal, NewType
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effects.vocabulary import cleaning
from effects.vocabulary.canonical import clean_json, clean_text, digest, dump, hydrate, load
from effects.vocabulary.exceptions import PayloadError

CARD = "4111 1111 1111 1111"


class Colour(Enum):
    RED = "red"
    DEEP = Decimal("1.50")


class Level(IntEnum):
    ONE = 1


OrderId = NewType("OrderId", int)


@dataclass(frozen=True)
class Line:
    sku: str
    price: Decimal
    amount: int = 1


@dataclass(frozen=True)
class Order:
    id: UUID
    number: OrderId
    lines: tuple[Line, ...]
    pair: tuple[int, str]
    notes: dict[str, list[str | None]]
    due: date
    placed: datetime
    colour: Colour
    mode: Literal["fast", 2]
    referrer: Line | None = None
    either: int | Line = 0
    anything: Any = None
    derived: str = field(init=False, default="derived")


def order(**changes: Any) -> Order:
    values: dict[str, Any] = {
        "id": UUID(int=7),
        "number": OrderId(17),
        "lines": (Line("a", Decimal("1.50")), Line("b", Decimal(2), 3)),
        "pair": (1, "x"),
        "notes": {"k": ["v", None]},
        "due": date(2026, 2, 28),
        "placed": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc),
        "colour": Colour.DEEP,
        "mode": 2,
        "referrer": Line("r", Decimal("-0.10")),
        "either": Line("e", Decimal(0)),
        "anything": {"deep": [1, {"er": None}]},
    }
    return Order(**{**values, **changes})


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(codec=None))
    | st.decimals(allow_nan=False, allow_infinity=False, places=4)
    | st.uuids()
    | st.dates()
    | st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9000, 1, 1), timezones=st.just(timezone.utc))
)
payloads = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
evidence = st.recursive(
    leaves | st.floats() | st.binary() | st.integers() | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec=None)) | st.integers(), inner, max_size=4)
        | st.frozensets(leaves, max_size=3)
    ),
    max_leaves=20,
)


class TestDump:
    @given(payloads)
    def test_dump_of_what_was_loaded_is_the_same_text(self, value: Any) -> None:
        """Loading and dumping again changes nothing."""
        text = dump(value)
        assert dump(load(text)) == text

    @given(st.dictionaries(st.text(), payloads, max_size=6), st.randoms(use_true_random=False))
    def test_key_order_does_not_count(self, value: dict[str, Any], shuffler: random.Random) -> None:
        """Two dicts that differ in the order of their keys give one text."""
        items = list(value.items())
        shuffler.shuffle(items)
        assert dump(dict(items)) == dump(value)

    @given(payloads)
    def test_a_text_column_can_hold_it(self, value: Any) -> None:
        """The text is ASCII without NUL, whatever the payload holds."""
        text = dump(value)
        assert text.isascii()
        assert text.isprintable()

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
            ((1, 2), "[1,2]"),
            ("a\x00\ud800é", '"a\\u0000\\ud800\\u00e9"'),
            (Decimal("1E+3"), '"1E+3"'),
            (Decimal("1E-7"), '"0.0000001"'),
            (Decimal("10.00"), '"10.00"'),
            (Level.ONE, "1"),
            (Colour.RED, '"red"'),
            (2**53 - 1, "9007199254740991"),
            (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), '"2026-01-01T02:00:00+02:00"'),
            (datetime(2026, 1, 1, 2, tzinfo=ZoneInfo("Europe/Berlin")), '"2026-01-01T02:00:00+01:00[Europe/Berlin]"'),
            (date(2026, 1, 1), '"2026-01-01"'),
        ],
    )
    def test_form(self, value: Any, text: str) -> None:
        """Each kind of value has one written form."""
        assert dump(value) == text

    @pytest.mark.parametrize(
        ("value", "path", "says"),
        [
            ({"items": [1, 2, {"price": 1.5}]}, "$.items[2].price", "minor units or a decimal string"),
            (float("nan"), "$", "not exact"),
            ({"a": Decimal("NaN")}, "$.a", "not a number"),
            (Decimal("1E+999999"), "$", "quantize"),
            ({1: "a"}, "$", "JSON keys are text"),
            ({"a": 2**53}, "$.a", "string"),
            (-(2**53), "$", "string"),
            (b"x", "$", "bytes"),
            ({1}, "$", "sorted"),
            (datetime(2026, 1, 1), "$", "time zone"),
            (datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))), "$", "range"),
            (object(), "$", "dataclass"),
            (Line, "$", "dataclass"),
            ({"\ud83d\ude00": 1, "\U0001f600": 2}, "$", "written alike"),
        ],
    )
    def test_refusals_name_path_and_fix(self, value: Any, path: str, says: str) -> None:
        """What cannot be written exactly is refused, with the place and what to do."""
        with pytest.raises(PayloadError, match="^" + "\\" + path[0]) as caught:
            dump(value)
        assert caught.value.path == path
        assert says in str(caught.value)

    def test_cycles_and_depth_are_refused(self) -> None:
        """A payload that contains itself, or is nested more than 64 deep, is an error and no recursion."""
        cycle: list[Any] = []
        cycle.append(cycle)
        with pytest.raises(PayloadError, match="itself"):
            dump(cycle)
        deep: Any = 1
        for _ in range(64):
            deep = [deep]
        assert dump(deep)
        with pytest.raises(PayloadError, match="64"):
            dump([deep])

    def test_a_value_used_twice_is_no_cycle(self) -> None:
        """The same list in two places is written twice."""
        shared = [1]
        assert dump([shared, shared]) == "[[1],[1]]"

    @pytest.mark.parametrize("text", ["1.5", "NaN", "{", "", "[" * 100_000])
    def test_load_refuses_what_dump_does_not_write(self, text: str) -> None:
        """Floats, NaN and broken JSON do not come back as payloads."""
        with pytest.raises(PayloadError):
            load(text)


class TestDigest:
    def test_parts_do_not_run_together(self) -> None:
        """Kind and length of each part count."""
        values = [
            digest("k", "ab", "c"),
            digest("k", "a", "bc"),
            digest("k", "abc"),
            digest("k", "abc", ""),
            digest("ka", "bc"),
            digest("k", "\ud800"),
            digest("k", "?"),
        ]
        assert len(set(values)) == len(values)

    def test_is_frozen(self) -> None:
        """Stored digests stay comparable: eight-byte lengths, UTF-8, SHA-256."""
        lengths = [b"\x00\x00\x00\x00\x00\x00\x00" + bytes([length]) for length in (1, 2, 1)]
        written = lengths[0] + b"k" + lengths[1] + b"\xc3\xa9" + lengths[2] + b"\x00"
        assert digest("k", "é", b"\x00") == hashlib.sha256(written).hexdigest()


class TestHydrate:
    def test_an_instance_survives(self) -> None:
        """A dataclass with all supported types comes back equal, and dumps to the same text."""
        original = order()
        restored = hydrate(Order, load(dump(original)))
        assert restored == original
        assert dump(restored) == dump(original)

    @pytest.mark.parametrize(
        ("change", "path"),
        [
            ({"lines": [{"sku": "a", "price": 1}]}, "$.lines[0].price"),
            ({"lines": [{"sku": "a", "price": "NaN"}]}, "$.lines[0].price"),
            ({"lines": [{"sku": "a"}]}, "$.lines[0]"),
            ({"lines": {"sku": "a"}}, "$.lines"),
            ({"number": True}, "$.number"),
            ({"number": "17"}, "$.number"),
            ({"pair": [1]}, "$.pair"),
            ({"pair": [1, 2]}, "$.pair[1]"),
            ({"notes": {"k": [1]}}, "$.notes.k[0]"),
            ({"due": "2026-02-30"}, "$.due"),
            ({"placed": "2026-01-01T00:00:00"}, "$.placed"),
            ({"colour": "blue"}, "$.colour"),
            ({"mode": True}, "$.mode"),
            ({"id": "x"}, "$.id"),
            ({"either": "x"}, "$.either"),
            ({"referrer": 1}, "$.referrer"),
            ({"colour": None}, "$.colour"),
            ({"extra": 1}, "$"),
        ],
    )
    def test_wrong_data_is_refused_with_its_path(self, change: dict[str, Any], path: str) -> None:
        """Nothing is converted on a guess; the error names the place."""
        data = {**load(dump(order())), **change}
        with pytest.raises(PayloadError) as caught:
            hydrate(Order, data)
        assert caught.value.path == path

    def test_missing_fields_take_their_defaults_or_are_named(self) -> None:
        """A field without a default must be there."""
        assert hydrate(Line, {"sku": "a", "price": "1"}) == Line("a", Decimal(1))
        with pytest.raises(PayloadError, match="'price'"):
            hydrate(Line, {"sku": "a"})

    def test_what_the_class_refuses_is_a_payload_error(self) -> None:
        """A ValueError of `__post_init__` names the payload."""

        @dataclass(frozen=True)
        class Positive:
            amount: int

            def __post_init__(self) -> None:
                if self.amount <= 0:
                    raise ValueError("must be positive")

        with pytest.raises(PayloadError, match="must be positive"):
            hydrate(Positive, {"amount": 0})

    def test_plain_dicts_and_unions(self) -> None:
        """A dict passes through; null is None only where the hint says so; RFC 3339's Z is UTC."""
        assert hydrate(dict, {"a": 1}) == {"a": 1}
        assert hydrate(datetime, "2026-01-01T00:00:00Z") == datetime(2026, 1, 1, tzinfo=timezone.utc)
        with pytest.raises(PayloadError):
            hydrate(set, [1])


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no")


class HostileMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise RuntimeError("no")

    def __iter__(self) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return 1


def nested(depth: int) -> Any:
    """Return lists in lists, built without recursion."""
    value: Any = 0
    for _ in range(depth):
        value = [value, value]
    return value


#: What a provider may answer, in any size; each name says what is many.
COSTLY: dict[str, Callable[[int], Any]] = {
    "names of NULs": lambda n: {"\0" * i: i for i in range(n)},
    "names with the same first 2000 characters": lambda n: {"x" * 2000 + str(i): None for i in range(n // 20)},
    "names of other types with one text": lambda n: {Named(): i for i in range(n)},
    "names called as others would be numbered": lambda n: (
        {"a": 0} | {f"a ({i})": i for i in range(2, n)} | {"a" + "\0" * i: i for i in range(1, n)}
    ),
    "names under names": lambda n: [{"\0": {"\0" * i: i for i in range(20)}} for _ in range(n // 20)],
    "values": lambda n: [None] * n,
    "sets of numbers": lambda n: set(range(n)),
    "objects in a list": lambda n: [{"id": str(i), "of": {}} for i in range(n)],
    "digits": lambda n: ["1 " * n],
    "digits of an integer": lambda n: [10**n] * 20,
    "characters": lambda n: ["x\0" * n * 100] * 20,
    "bytes": lambda n: b"\xff" * n * 100,
    "levels": nested,
}


class Named:
    """Each is another name, and all are written alike."""

    def __str__(self) -> str:
        return "name"


class TestWhatCleaningCosts:
    """Counted in lines that run, characters that the redactor reads and characters that are written."""

    @staticmethod
    def work(value: Any, limit: int) -> int:
        done = 0

        def redact(text: str, place: str) -> str:
            nonlocal done
            done += len(text)
            return text

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal done
            done += event == "line"
            return line if frame.f_code.co_filename == cleaning.__file__ else None

        redactors, tracer = list(cleaning._redactors), sys.gettrace()
        cleaning.use_redactor(redact)
        sys.settrace(line)
        try:
            cleaned = clean_json(value, limit)
        finally:
            sys.settrace(tracer)
            cleaning._redactors[:] = redactors
        return done + len(json.dumps(cleaned, ensure_ascii=False))

    @pytest.mark.parametrize("shape", COSTLY)
    def test_grows_with_the_size_of_what_was_said(self, shape: str) -> None:
        """Twice as much costs twice as much, whatever there is so much of; nothing is squared."""
        once, twice = (self.work(COSTLY[shape](size), 10**7) for size in (600, 1200))
        assert twice <= 2.5 * once

    @pytest.mark.parametrize("shape", COSTLY)
    def test_ends_at_the_limit(self, shape: str) -> None:
        """Once the limit is reached, more of it costs nothing more."""
        limit = 400
        once, ten_times = (self.work(COSTLY[shape](size), limit) for size in (600, 6000))
        assert ten_times <= 1.5 * once + limit

    @pytest.mark.parametrize("shape", [*COSTLY, "texts that the redactor empties"])
    def test_ends_within_a_second(self, shape: str) -> None:
        """A megabyte of the worst; a wide bound, for a busy machine."""
        value = COSTLY[shape](5000) if shape in COSTLY else ["x" * 60_000] * 20_000
        redactors = list(cleaning._redactors)
        cleaning.use_redactor((lambda text, place: text) if shape in COSTLY else lambda text, place: "")
        began = time.process_time()
        try:
            cleaned = clean_json(value)
        finally:
            cleaning._redactors[:] = redactors
        assert time.process_time() - began < 1
        assert len(json.dumps(cleaned, ensure_ascii=False)) < 150_000


class TestCleaning:
    @pytest.mark.parametrize(
        ("text", "cleaned"),
        [
            ("a\x00b\ud800", "ab\ufffd"),
            (f"card {CARD}.", "card **** **** **** 1111."),
            ("4111-1111-1111-1111", "****-****-****-1111"),
            (f"order 17 {CARD}", "order 17 **** **** **** 1111"),
            ("4222222222222", "*********2222"),
            ("4111111111111112", "4111111111111112"),
            ("41111111111111110000", "41111111111111110000"),
            (b"\xff4111111111111111", "\ufffd************1111"),
            (None, "None"),
            (Hostile(), "<unprintable Hostile>"),
        ],
    )
    def test_text(self, text: Any, cleaned: str) -> None:
        """NUL and surrogates go, card numbers keep four digits, nothing raises."""
        assert clean_text(text) == cleaned

    def test_a_card_number_on_the_cut_is_masked(self) -> None:
        """Cutting happens after masking, so no part of a number survives."""
        assert clean_text("x" * 10 + CARD, 20) == "x" * 10 + "**** ****…"

    @given(st.text(st.characters(codec=None)), st.integers(-1, 50))
    def test_text_is_never_longer_than_the_limit(self, text: str, limit: int) -> None:
        """The mark of the cut is counted."""
        assert len(clean_text(text, limit)) <= max(limit, 1)

    @given(evidence)
    def test_json_is_storable(self, value: Any) -> None:
        """Whatever comes in, strict JSON without NUL, surrogates and floats comes out."""
        text = json.dumps(clean_json(value), allow_nan=False, ensure_ascii=False)
        assert "\\u0000" not in text
        text.encode("utf-8")
        json.loads(text, parse_float=pytest.fail)

    def test_json_keeps_what_it_can(self) -> None:
        """Floats and huge integers become text, names stay apart, hostile objects become a note."""
        value = {
            1: 1.5,
            "1": float("nan"),
            "big": 2**60,
            "card": 4111111111111111,
            "line": Line("a", Decimal("1.0")),
            "bad": HostileMapping(),
            "huge": 10**5000,
        }
        assert clean_json(value) == {
            "1": "1.5",
            "1 (2)": "nan",
            "big": str(2**60),
            "card": "************1111",
            "line": {"sku": "a", "price": "1.0", "amount": 1},
            "bad": "<unprintable HostileMapping>",
            "huge": "<an integer of 16610 bits>",
        }

    def test_json_is_bounded(self) -> None:
        """Depth, width and cycles end in a mark."""
        cycle: list[Any] = []
        cycle.append(cycle)
        assert "…" in json.dumps(clean_json(cycle), ensure_ascii=False)
        assert len(json.dumps(clean_json({"a": ["x" * 5000] * 1000}, 4000), ensure_ascii=False)) < 8000

    def test_what_is_cut_says_how_much_is_missing(self) -> None:
        """In a list, in an object, and in a text of which the redactor left little."""
        assert clean_json(list("abcdef"), 6) == ["a", "b", "c", "… 3 more"]
        assert clean_json(dict.fromkeys("abcdef"), 6) == {"a": None, "b": None, "c": None, "…": "… 3 more"}
        assert clean_json({"…": 1, "b": 2, "c": 3}, 4) == {"…": 1, "… (2)": "… 2 more"}
        before = list(cleaning._redactors)
        cleaning.use_redactor(lambda text, place: "")
        try:
            assert clean_text("x" * 1_000_000) == clean_json("x" * 1_000_000) == "…"
        finally:
            cleaning._redactors[:] = before

    def test_names_that_clean_alike_are_numbered(self) -> None:
        """None is lost, also where one is called as another would be numbered."""
        assert clean_json({"a": 0, "a (2)": 1, "a\0": 2, "a\0\0": 3, "a (2)\0": 4}) == {
            "a": 0, "a (2)": 1, "a (3)": 2, "a (4)": 3, "a (2) (2)": 4,
        }  # fmt: skip


class _Refuses:
    """Counts what reaches it."""

    seen: ClassVar[list[object]] = []


@dataclass(frozen=True)
class _Price:
    amount: Decimal
    more: tuple[Decimal, ...] = ()

    def __post_init__(self) -> None:
        _Refuses.seen.append(self.amount)
        int(self.amount)


@pytest.mark.parametrize(
    "text", ["1e999999", "-1E+999999", "1e-999999", "0e999999", "9" * 1002, "0." + "0" * 1001 + "1", "1e1001"]
)
@pytest.mark.parametrize("place", ["amount", "more"])
def test_a_huge_decimal_never_reaches_the_class(text: str, place: str) -> None:
    """`int(Decimal("1e999999999"))` in a `__post_init__` would take the process with it."""
    _Refuses.seen.clear()
    payload: dict[str, Any] = {"amount": "1.50"} | ({"amount": text} if place == "amount" else {"more": ["2.00", text]})
    with pytest.raises(PayloadError, match="1000 digits"):
        hydrate(_Price, payload)
    assert _Refuses.seen == []
    assert hydrate(_Price, {"amount": "1e1000"}).amount == Decimal("1e1000")
