"""What goes into the journal comes out as it went in: payloads exactly or not at all, outputs as data."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, Literal, NamedTuple, NewType
from unittest.mock import Mock
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
import stripe
from django.contrib.auth.models import User
from django.db import models
from django.http import QueryDict
from django.utils.safestring import SafeString, mark_safe
from hypothesis import given, settings
from hypothesis import strategies as st

import effects
from effects.declarations.effect import get_effect
from effects.journal import outputs
from effects.models import Execution
from effects.testing import provider_says, run_due
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import PayloadConflictError, PayloadError
from effects.vocabulary.fidelity import refuse_changed
from tests.core.declared import Order as Looked
from tests.core.people import PAYLOAD

BERLIN = ZoneInfo("Europe/Berlin")
OFFSET = timezone(timedelta(hours=13))
#: The hour that a clock in Berlin shows twice; the second time.
TWICE = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)
Customer = NewType("Customer", str)


class Status(models.TextChoices):
    PAID = "paid"


class Level(IntEnum):
    ONE = 1


class Rate(Enum):
    HALF = Decimal("0.50")
    DAY = date(2026, 1, 1)


class Pair(NamedTuple):
    a: int
    b: int


@dataclass(frozen=True)
class Line:
    sku: str
    price: Decimal


@dataclass(frozen=True)
class Transfer:
    """A payload with a field of each kind; what a test does not say has its default."""

    when: datetime | None = None
    day: date | None = None
    amount: Decimal = Decimal(1)
    status: Status | None = None
    level: Level | None = None
    rate: Rate | None = None
    who: Customer = Customer("")
    id: UUID | None = None
    lines: tuple[Line, ...] = ()
    names: list[str] = field(default_factory=list)
    any_order: Sequence[str] = ()
    count: int = 0
    speed: Literal["fast", 1] = "fast"
    note: str = ""
    rest: Any = None
    table: dict[str, Line] = field(default_factory=dict)


class _Bank:
    provider = "bank/acct_test"

    def send(self, context: Any, permit: Any) -> Any:
        raise AssertionError("a test says what the provider answers")


@effects.register
class Move(_Bank, effects.Effect[Transfer]):
    operation = "bank.move"


@effects.register
class MoveDict(_Bank, effects.Effect[dict]):
    operation = "bank.move_dict"


@dataclass(frozen=True)
class Noted:
    """A payload with fields that its own comparison passes over; they are sent all the same."""

    amount: int = 1
    note: Any = field(default=None, compare=False)
    lines: tuple[Line, ...] = field(default=(), compare=False)
    when: datetime | None = field(default=None, compare=False)


@effects.register
class MoveNoted(_Bank, effects.Effect[Noted]):
    operation = "bank.move_noted"


@dataclass(frozen=True)
class Receipt:
    id: UUID
    at: datetime
    fee: Decimal
    share: float
    lines: tuple[Line, ...] = ()


@effects.register
class Receipted(_Bank, effects.Effect[dict]):
    operation = "bank.receipted"
    output_type = Receipt


def sent(effect: type[effects.Effect[Any]], payload: Any) -> tuple[Any, Any]:
    """Return what `send` got, and what a worker would get."""
    with provider_says(effect, effects.Applied()) as said:
        effects.perform(effect, payload=payload, key="k1")
    row = Execution.objects.get()
    return said.sends[0][0].payload, get_effect(effect).load(row.payload, row.payload_version)


def refused(effect: type[effects.Effect[Any]], payload: Any) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        effects.perform(effect, payload=payload, key="k1")
    assert not Execution.objects.exists()
    return caught.value


def is_same(one: Any, other: Any) -> bool:
    """Compare with types, offsets and exponents."""
    return shape(one) == shape(other)


def shape(value: Any) -> Any:
    """Return what a value is made of, but for the order of a dict."""
    if is_dataclass(value):
        return type(value), [shape(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, dict):
        return type(value), {name: shape(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [shape(item) for item in value]
    if isinstance(value, datetime):
        return type(value), value.replace(tzinfo=None, fold=0), value.utcoffset(), value.tzinfo
    return type(value), repr(value)


@pytest.mark.django_db(transaction=True)
class TestPayloads:
    @pytest.mark.parametrize(
        "values",
        [
            {"when": datetime(2026, 1, 1, 1, tzinfo=OFFSET)},
            {"when": datetime(2026, 7, 1, 0, 30, tzinfo=BERLIN)},
            {"when": TWICE},
            {"when": TWICE.replace(fold=0)},
            {"when": datetime(1890, 1, 1, tzinfo=BERLIN)},
            {"when": datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC"))},
            {"day": date(2026, 2, 28)},
            {"amount": Decimal("1E+3")},
            {"amount": Decimal("0E+3")},
            {"amount": Decimal("-0.00")},
            {"amount": Decimal("1E-20")},
            {"amount": Decimal("12.3400")},
            {"status": Status.PAID},
            {"level": Level.ONE},
            {"rate": Rate.HALF},
            {"rate": Rate.DAY},
            {"who": Customer("ann"), "id": UUID(int=7), "speed": 1, "count": 2**53 - 1},
            {"lines": (Line("a", Decimal("1.50")),), "table": {"x": Line("b", Decimal(2))}},
            {"names": [], "lines": (), "rest": {}},
            {"any_order": ["a"], "rest": [1, {"a": None, "b": True}]},
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_what_send_gets_is_what_perform_was_given(self, values: Any) -> None:
        """At once and from a worker: with its offset, zone, exponent and types."""
        payload = Transfer(**values)
        if "any_order" not in values:
            payload = Transfer(**values, any_order=[])
        now, later = sent(Move, payload)
        assert is_same(now, payload)
        assert is_same(later, payload)

    @pytest.mark.parametrize(
        ("values", "path"),
        [
            ({"note": Status.PAID}, "$.note"),
            ({"count": Level.ONE}, "$.count"),
            ({"count": True}, "$.count"),
            ({"rest": Decimal("1.50")}, "$.rest"),
            ({"rest": [{"at": datetime(2026, 1, 1, tzinfo=OFFSET)}]}, "$.rest[0].at"),
            ({"rest": (1, 2)}, "$.rest"),
            ({"names": ("a",)}, "$.names"),
            ({"lines": [Line("a", Decimal(1))]}, "$.lines"),
            ({"any_order": ("a",)}, "$.any_order"),
            ({"rest": Pair(1, 2)}, "$.rest"),
            ({"rest": QueryDict("a=1&a=2")}, "$.rest"),
            ({"rest": {Status.PAID: 1}}, "$.rest"),
            ({"rest": Line("a", Decimal(1))}, "$.rest"),
            ({"count": 2**53}, "$.count"),
            ({"when": datetime(2026, 1, 1)}, "$.when"),
            ({"rest": 1.5}, "$.rest"),
            ({"rest": {1, 2}}, "$.rest"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_what_would_come_back_as_something_else_is_refused(self, values: Any, path: str) -> None:
        """In words, with its place, before anything is recorded."""
        error = refused(Move, Transfer(**{"any_order": [], **values}))
        assert error.path == path

    @pytest.mark.parametrize(
        ("values", "path"),
        [
            ({"note": Decimal("1.50")}, "$.note"),
            ({"note": {"pair": (1, 2)}}, "$.note.pair"),
            ({"note": Status.PAID}, "$.note"),
            ({"lines": [Line("a", Decimal(1))]}, "$.lines"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_a_field_that_is_not_compared_is_sent_too(self, values: Any, path: str) -> None:
        """`compare=False` says what makes two payloads equal, not what the provider gets."""
        assert refused(MoveNoted, Noted(**values)).path == path
        kept = Noted(note=["a"], lines=(Line("a", Decimal("1.50")),), when=TWICE)
        now, later = sent(MoveNoted, kept)
        assert is_same(now, kept)
        assert is_same(later, kept)

    @pytest.mark.parametrize(
        ("payload", "path"),
        [
            ({"amount": Decimal("1.50")}, "$.amount"),
            ({"id": UUID(int=1)}, "$.id"),
            ({"at": datetime(2026, 1, 1, tzinfo=OFFSET)}, "$.at"),
            ({"lines": ({"a": 1},)}, "$.lines"),
            ({"status": Status.PAID}, "$.status"),
            (QueryDict("a=1&a=2"), "$"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_a_plain_dict_holds_what_json_holds(self, payload: Any, path: str) -> None:
        """Nothing declares that a text was a Decimal; the words say how to declare it."""
        error = refused(MoveDict, payload)
        assert error.path == path
        assert "come back" in str(error)

    @pytest.mark.parametrize(
        "payload",
        [{"a": [1, "x", None, True, {}]}, OrderedDict(a=1), {"text": mark_safe("<b>")}, {"": [[]]}],
        ids=lambda value: type(value).__name__,
    )
    def test_what_is_equal_as_plain_data_passes(self, payload: Any) -> None:
        """A text that is marked safe is still that text, an ordered dict still that dict."""
        now, later = sent(MoveDict, payload)
        assert now == later == payload
        assert not isinstance(now.get("text"), SafeString)

    def test_a_dict_of_the_fields_may_be_in_json_form(self) -> None:
        """As a client's body is: the declared types decide what it means."""
        payload = {
            "when": "2026-01-01T00:00:00Z", "amount": "1.50", "status": "paid", "level": 1, "id": str(UUID(int=7)),
            "lines": [{"sku": "a", "price": "2"}], "any_order": [],
        }  # fmt: skip
        now, later = sent(Move, payload)
        assert is_same(now, later)
        assert now.lines == (Line("a", Decimal(2)),)
        assert now.when == datetime(2026, 1, 1, tzinfo=timezone.utc)

    def test_a_default_that_no_journal_keeps_is_refused_too(self) -> None:
        """A worker would be given another value than the call that recorded it."""
        error = refused(Move, {"amount": "1"})
        assert error.path == "$.any_order"

    def test_another_class_than_the_declared_one_is_refused(self) -> None:
        """A subclass without fields of its own would come back as its base."""
        kind = make_dataclass("Special", [], bases=(Transfer,), frozen=True)
        assert "Special" in str(refused(Move, kind(any_order=[])))

    def test_the_same_instant_on_another_day_is_another_payload(self) -> None:
        """The provider would be sent another day under one key."""
        first = datetime(2026, 1, 1, 23, tzinfo=timezone.utc)
        sent(Move, Transfer(when=first, any_order=[]))
        with pytest.raises(PayloadConflictError):
            effects.perform(Move, payload=Transfer(when=first.astimezone(BERLIN), any_order=[]), key="k1")


texts = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)
lines = st.builds(Line, st.sampled_from(["a", "b"]), st.decimals(allow_nan=False, allow_infinity=False, places=2))
decimals = st.builds(
    lambda sign, digits, exponent: Decimal((sign, digits, exponent)),
    st.sampled_from([0, 1]), st.lists(st.integers(0, 9), min_size=1, max_size=12).map(tuple), st.integers(-300, 300),
)  # fmt: skip
instants = st.datetimes(
    min_value=datetime(1901, 1, 2), max_value=datetime(9000, 1, 1),
    timezones=st.timezones() | st.builds(
        lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-1439, 1439)
    ),
)  # fmt: skip
transfers = st.builds(
    Transfer, when=st.none() | instants, day=st.none() | st.dates(), amount=decimals,
    status=st.none() | st.sampled_from(Status), level=st.none() | st.sampled_from(Level),
    rate=st.none() | st.sampled_from(Rate), id=st.none() | st.uuids(), lines=st.lists(lines, max_size=2).map(tuple),
    names=st.lists(st.just("n"), max_size=2), any_order=st.lists(st.just("n"), max_size=2),
    count=st.integers(-(2**53) + 1, 2**53 - 1), speed=st.sampled_from(["fast", 1]), rest=json_values,
    table=st.dictionaries(st.sampled_from(["x", "y"]), lines, max_size=2),
)  # fmt: skip


@given(transfers)
@settings(max_examples=200, deadline=None)
def test_dump_and_load_give_the_same_payload(payload: Transfer) -> None:
    """Any value of the supported types comes back equal, with its types; and no false alarm is raised."""
    back = get_effect(Move).read(canonical.load(canonical.dump(payload)))
    refuse_changed(payload, back)
    assert is_same(back, payload)
    assert canonical.dump(back) == canonical.dump(payload)


@given(json_values | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.lists(st.floats(0, 1)))
@settings(max_examples=200, deadline=None)
def test_json_comes_back_from_an_output_as_it_was(value: Any) -> None:
    """Floats and integers of any size included; nothing is logged of it."""
    data, others = outputs.as_data(value)
    assert others == {}
    assert is_same(canonical.load(outputs.dump_output(data), floats=True), value)


class Pydantic:
    """As pydantic's models do."""

    def model_dump(self) -> dict[str, Any]:
        return {"id": 1, "at": datetime(2026, 1, 1, tzinfo=OFFSET)}


class Broken:
    """An SDK's object whose own methods fail."""

    def to_dict(self) -> Any:
        raise RuntimeError("not loaded")


class Attr:
    """As attrs declares classes."""

    __attrs_attrs__ = (Mock(spec=["name"]),)

    def __init__(self) -> None:
        self.id = "re_1"


Attr.__attrs_attrs__[0].name = "id"


class Named(NamedTuple):
    """As some SDKs answer."""

    id: str
    amount: int


def stripe_object() -> Any:
    nested = {"id": "pi_1", "object": "payment_intent", "charges": {"object": "list", "data": [{"id": "ch_1"}]}}
    return stripe.PaymentIntent.construct_from(nested, "sk_test")


@pytest.mark.django_db(transaction=True)
class TestOutputs:
    @pytest.mark.parametrize(
        ("output", "read"),
        [
            (1.5, 1.5),
            ({"rates": [0.1, 2.0]}, {"rates": [0.1, 2.0]}),
            (2**64, 2**64),
            (Line("a", Decimal("1.50")), {"sku": "a", "price": "1.50"}),
            (Named("re_1", 5), {"id": "re_1", "amount": 5}),
            (Pydantic(), {"id": 1, "at": "2026-01-01T00:00:00+13:00"}),
            (Attr(), {"id": "re_1"}),
            ({"tags": {"b", "a"}, "pair": (1, 2)}, {"tags": ["a", "b"], "pair": [1, 2]}),
            ({"s": Status.PAID, "l": Level.ONE, "u": UUID(int=1)}, {"s": "paid", "l": 1, "u": str(UUID(int=1))}),
            ({Status.PAID: 1}, {"paid": 1}),
            (QueryDict("a=1"), {"a": "1"}),
            ({"list": deque(["b", 1]), "range": range(2)}, {"list": ["b", 1], "range": [0, 1]}),
            ({"names": {"b": 1, "a": 2}.keys()}, {"names": ["a", "b"]}),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_what_can_be_data_is_data(self, output: Any, read: Any, caplog: pytest.LogCaptureFixture) -> None:
        """In a documented way, and without a word in the log."""
        with provider_says(Move, effects.Applied(output)):
            outcome = effects.perform(Move, payload={"any_order": []}, key="k1")
        assert is_same(outcome.require(), read)
        assert caplog.records == []

    def test_an_object_of_stripes_is_what_it_stands_for(self) -> None:
        """With all that is nested in it."""
        with provider_says(Move, effects.Applied(stripe_object())):
            outcome = effects.perform(Move, payload={"any_order": []}, key="k1")
        assert outcome.require()["charges"]["data"] == [{"id": "ch_1"}]

    @pytest.mark.parametrize(
        ("part", "kind", "read"),
        [
            (b"x", "bytes", "x"),
            (float("nan"), "float", "nan"),
            (Decimal("Infinity"), "Decimal", "Infinity"),
            (datetime(2026, 1, 1), "datetime", "2026-01-01T00:00:00"),
            (time(1, 2), "time", "01:02:00"),
            (timedelta(hours=1), "timedelta", "1:00:00"),
            (1 + 2j, "complex", "(1+2j)"),
            (Broken, "type", None),
            (Broken(), "Broken", None),
            (Mock(), "Mock", None),
            (User(pk=1, username="ann"), "User", "ann"),
        ],
        ids=lambda value: str(type(value).__name__),
    )
    def test_what_is_no_data_is_text_and_logged(
        self, part: Any, kind: str, read: str | None, caplog: pytest.LogCaptureFixture
    ) -> None:
        """By type and place; what stands beside it is kept as it is, and the outcome is recorded."""
        with provider_says(Move, effects.Applied({"rate": 1.5, "parts": [part]}, "re_1")):
            outcome = effects.perform(Move, payload={"any_order": []}, key="k1")
        output = outcome.require()
        assert (outcome.reference, output["rate"], type(output["parts"][0])) == ("re_1", 1.5, str)
        assert read is None or output["parts"] == [read]
        (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert f"bank.move {outcome.ref}: 1 values" in record.getMessage()
        assert f"$.parts[0] ({kind})" in record.getMessage()

    def test_what_has_no_end_ends(self, caplog: pytest.LogCaptureFixture) -> None:
        """An object that contains itself is cut, and said so."""
        endless: dict[str, Any] = {"id": 1}
        endless["self"] = endless
        with provider_says(Move, effects.Applied(endless)):
            outcome = effects.perform(Move, payload={"any_order": []}, key="k1")
        assert outcome.require() == {"id": 1, "self": "…"}
        assert "$.self (dict)" in caplog.text

    def test_a_declared_output_comes_back_as_itself(self) -> None:
        """Now, and whenever the row is read."""
        receipt = Receipt(UUID(int=7), TWICE, Decimal("1E+2"), 0.25, (Line("a", Decimal("1.50")),))
        with provider_says(Receipted, effects.Applied(receipt)):
            outcome = effects.perform(Receipted, payload={}, key="k1")
        assert is_same(outcome.require(), receipt)
        assert is_same(effects.get(outcome.ref).outcome.require(), receipt)

    def test_a_look_up_and_a_person_bring_outputs_too(self) -> None:
        """What they found is kept in the same way."""
        with provider_says(Looked, TimeoutError(), look_up=effects.Found("ch_1", output=Pydantic())):
            ref = effects.perform(Looked, payload=PAYLOAD, key="k1").ref
            run_due()
        assert effects.get(ref).outcome.require()["at"] == "2026-01-01T00:00:00+13:00"
        with provider_says(Looked, TimeoutError()):
            found = effects.get(effects.perform(Looked, payload=PAYLOAD, key="k2").ref)
        effects.resolve(found.id, decision="applied", revision=found.revision, by="ops", reason="seen", output=0.5)
        assert effects.get(found.id).outcome.require() == 0.5
