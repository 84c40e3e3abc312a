"""Text that cannot be shown: refused where it would be sent, cleaned where it is only kept, visible to who decides."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.mail import EmailMessage
from hypothesis import given
from hypothesis import strategies as st

import effects
from effects.models import Approval, Execution, Receipt
from effects.runtime import operators
from effects.testing import provider_says
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import NameUnusableError, PayloadError
from tests.core.declared import Approved, Charge, ChargePayload, Plain
from tests.core.people import PAYLOAD, person

HALVES = ["\ud800", "a\udfff", "\udc80", "\ude00\ud83d", "x" * 100 + "\udbff"]
OVERRIDE = "EUR 10\u202e00.5\u202c \u2066x\u2069\x1b[2J\x85"
EVERY = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)


class TestPayloads:
    pytestmark = pytest.mark.django_db

    @pytest.mark.parametrize("half", HALVES)
    @pytest.mark.parametrize(
        ("payload", "path"),
        [
            (lambda half: ChargePayload(half, 1), r"\$\.customer"),
            (lambda half: {"customer": half, "amount": 1}, r"\$\.customer"),
            (lambda half: {"customer": "c", "amount": 1, half: "x"}, r"\$"),
        ],
    )
    def test_half_of_a_character_is_refused_by_its_place(self, half: str, payload: Any, path: str) -> None:
        """No provider could be sent it, and no page could show it: nothing is recorded."""
        with pytest.raises(PayloadError, match=rf"^{path}: .*half of a character \(\\ud") as refused:
            effects.perform(Plain, payload=payload(half), key="k")
        str(refused.value).encode()
        assert not Execution.objects.exists()

    def test_whole_characters_are_taken(self) -> None:
        """Also those beyond the first plane, which JSON writes as pairs."""
        with provider_says(Plain, effects.Applied()):
            outcome = effects.perform(Plain, payload=ChargePayload("🙂 é \\ud800", 1), key="k")
        assert outcome.settled
        assert effects.get(outcome.ref).summary["facts"] == [["customer", "🙂 é \\ud800"]]

    @pytest.mark.parametrize("half", HALVES)
    def test_names_are_refused(self, half: str) -> None:
        """A key or a tenant that was cleaned could be another one's."""
        for options in ({"key": half}, {"key": "k", "tenant": half}):
            with pytest.raises((NameUnusableError, effects.EffectsError)) as refused:
                effects.perform(Plain, payload=PAYLOAD, **options)
            str(refused.value).encode()
        assert not Execution.objects.exists()


class TestWhatIsKept:
    pytestmark = pytest.mark.django_db

    @pytest.mark.parametrize("half", HALVES)
    def test_a_providers_words(self, half: str) -> None:
        """Output, reference, code, message and items are kept, and whoever reads them can encode them."""
        answers: list[Any] = [
            effects.Applied({"id": half, half: [half], "n": 1}, half),
            effects.Partial([effects.Item(f"a{half}", True, half, half, half)], {half: half}, half),
            effects.Declined(half, code=half),
            effects.Submitted(half),
        ]
        for number, answer in enumerate(answers):
            with provider_says(Charge, answer):
                outcome = effects.perform(Charge, payload=PAYLOAD, key=f"k{number}")
            assert outcome.state in ("completed", "partially_completed", "failed", "accepted")
            repr(outcome).encode()
            json.dumps(getattr(outcome, "output", None), ensure_ascii=False).encode()
        for receipt in Receipt.objects.all():
            json.dumps(receipt.evidence, ensure_ascii=False).encode()

    @pytest.mark.parametrize("half", HALVES)
    def test_an_operators_words(self, half: str) -> None:
        """A resolution with an output that somebody pasted, and evidence."""
        with provider_says(Charge, TimeoutError("t")):
            ref = effects.perform(Charge, payload=PAYLOAD, key="k").ref
        operators.observe(ref, reference=f"r{half}", evidence={half: half})
        row = Execution.objects.get()
        operators.resolve(
            ref, decision="applied", revision=row.revision, by=person("olga"), reason=half, reference=f"r{half}",
            output={"id": half}, evidence={half: [half]},
        )  # fmt: skip
        repr(effects.get(ref)).encode()
        json.dumps(effects.get(ref).outcome.require(), ensure_ascii=False).encode()

    @given(EVERY, EVERY)
    def test_any_text_comes_out_whole(self, name: str, text: str) -> None:
        """Whatever is dumped as an output can be encoded when it is read back, and whole text is what it was."""
        read = canonical.load(canonical.whole(canonical.dump({"x" + name: [text, {"y": text}]})))
        json.dumps(read, ensure_ascii=False).encode()
        if canonical.clean_text(text) == text:
            assert next(iter(read.values()))[0] == text


class TestWhatPeopleDecideBy:
    pytestmark = pytest.mark.django_db

    @pytest.mark.parametrize("text", [OVERRIDE, "\u202e", "a\u2028b", "\x00\x9b31m", "\u202a\u202b\u202d\u2067"])
    def test_nothing_turns_an_amount_round(self, text: str) -> None:
        """Title, facts, currency and target are frozen, digested and told with what cannot be seen written out."""
        bob = person("bob")
        ref = effects.perform(
            Approved, payload=ChargePayload(text, 1, "eur" + text[:2]), key="k", requested_by="shop"
        ).ref
        approval = Approval.objects.get()
        shown = json.dumps([approval.summary, effects.get(ref).summary], ensure_ascii=False)
        assert not [character for character in "\u202e\u202d\u2066\u2067\u2028\x1b\x85\x00" if character in shown]
        assert "c00.5" not in shown
        EmailMessage("s", shown).message().as_bytes()
        effects.grant(ref, by=bob, digest=approval.digest)

    def test_line_breaks_and_letters_of_every_script_stay(self) -> None:
        """What can be seen is not touched: Persian joins its letters by characters without width."""
        text = "\u0645\u06cc\u200c\u062e\n\u05e9\u200f 🙂"
        person("bob")
        effects.perform(Approved, payload=ChargePayload(text, 1), key="k", requested_by="shop")
        assert Approval.objects.get().summary["facts"] == [["customer", text]]
