"""A secret is sent by the call that brings it, and written nowhere."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest

import effects
from effects.models import Execution, Receipt
from effects.runtime import operators, sending
from effects.testing import assert_performed, provider_says, run_due, time_passes
from effects.vocabulary import canonical, exceptions
from tests.core.people import person
from tests.redaction.declared import CANARY, Fax, Loose, Transfer, Wire, WireApproved, transfer

pytestmark = pytest.mark.django_db


def row_of(outcome: effects.Outcome) -> Execution:
    return Execution.objects.get(pk=outcome.ref)


def wired(*answers: Any, payload: Transfer | None = None, key: str = "k1", **options: Any) -> effects.Outcome:
    with provider_says(Wire, *(answers or (effects.Applied(),))):
        return effects.perform(Wire, payload=payload or transfer(), key=key, requested_by="ann", **options)


# -- the value -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [repr, str, "{}".format, "%s".__mod__, lambda s: str(asdict(Transfer(s))), ascii])
def test_it_never_turns_into_text(write: Any) -> None:
    """However it is written, only a mask is."""
    assert CANARY not in write(effects.Secret(CANARY))
    assert "[secret]" in write(effects.Secret(CANARY))


@pytest.mark.parametrize("write", [pickle.dumps, json.dumps, len, list, lambda s: s + "x", lambda s: "x".join([s])])
def test_what_would_keep_it_or_use_it_by_accident_is_refused(write: Any) -> None:
    """A queue, a cache and an answer cannot take it along."""
    with pytest.raises(TypeError) as refused:
        write(effects.Secret(CANARY))
    assert CANARY not in str(refused.value)


def test_it_is_a_value() -> None:
    """Two of the same text are one; a copy is itself; what is no text is refused."""
    assert effects.Secret("a") == effects.Secret("a") != effects.Secret("b")
    assert len({effects.Secret("a"), effects.Secret("a")}) == 1
    assert copy.deepcopy(effects.Secret("a")) == effects.Secret("a")
    assert effects.Secret("a") != "a"
    with pytest.raises(TypeError, match="takes a str, not int"):
        effects.Secret(4111)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("effect", "payload", "says"),
    [
        (Wire, {"account": CANARY}, r"\$.account: expected Secret, found str"),
        (Wire, {"account": effects.Secret("x"), "note": effects.Secret(CANARY)}, r"\$.note: expected str"),
        (Loose, {"$secret": "mark"}, "stands for an effects.Secret"),
        (Loose, {"a": {"$secret": "mark", "b": 1}}, r"\$.a: has the key '\$secret'"),
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_without_showing_it(effect: Any, payload: Any, says: str) -> None:
    """A field says that it is one; the name that stands for one in the journal is reserved."""
    with pytest.raises(exceptions.PayloadError, match=says) as refused:
        effects.perform(effect, payload=payload, key="k1")
    assert CANARY not in str(refused.value)
    assert not Execution.objects.exists()


# -- sending -------------------------------------------------------------------------------------------------------


def test_the_call_that_brings_it_sends_it_and_the_journal_keeps_a_mark() -> None:
    """`send` gets the text; row, receipts and outcome do not."""
    with provider_says(Wire, effects.Applied({"to": effects.Secret(CANARY)}, "po_1")) as said:
        outcome = effects.perform(Wire, payload=transfer(), key="k1")
    ((context, _),) = said.sends
    assert context.payload.account.reveal() == CANARY
    row = row_of(outcome)
    assert set(json.loads(row.payload)["account"]) == {"$secret"}
    assert row.summary["facts"] == [["to", "[secret]"]]
    assert row.output == '{"to":{"$secret":""}}'
    assert repr(outcome.require()) == "{'to': [secret]}"
    assert_performed(Wire, payload=transfer())


def test_who_is_shown_stored_contents_sees_a_mask_or_nothing() -> None:
    """For pages and APIs: plain JSON, whatever retention or an accident made of it."""
    row = row_of(wired())
    assert canonical.show(row.payload) == {"account": "[secret]", "amount": 1000, "note": ""}
    assert [canonical.show(text) for text in ("", None, "no JSON", "null")] == [None] * 4


def test_it_may_stand_anywhere_in_a_payload() -> None:
    """In dicts and lists, beside others, the same one twice."""
    payload = {"cards": [effects.Secret("4111111111111111"), {"pin": effects.Secret("1234")}], "n": 1}
    with provider_says(Loose, effects.Applied()) as said:
        outcome = effects.perform(Loose, payload=payload, key="k1")
    sent = said.sends[0][0].payload
    assert [sent["cards"][0].reveal(), sent["cards"][1]["pin"].reveal()] == ["4111111111111111", "1234"]
    assert "4111" not in row_of(outcome).payload
    assert "1234" not in row_of(outcome).payload


def test_whoever_reads_it_back_has_no_text() -> None:
    """A look-up, a hook that runs later: `reveal` says so, and what raises there proves nothing."""
    wired(TimeoutError())
    seen: list[Any] = []

    def look(context: Any) -> Any:
        seen.append(context.payload.account)
        return effects.Found(context.payload.account.reveal())

    with provider_says(Wire, look_up=look):
        run_due()
    row = Execution.objects.get()
    assert (row.state, repr(seen[0])) == ("uncertain", "[secret]")
    with pytest.raises(exceptions.SecretGoneError):
        seen[0].reveal()


def test_a_block_that_makes_the_call_itself_has_it() -> None:
    """`sending` gives the text to the block, and masks it in what the block reports or raises."""
    with effects.sending(Wire, payload=transfer(), key="k1") as sending:
        assert sending.context is not None
        account = sending.context.payload.account.reveal()
        sending.report(effects.Applied({"to": account}, "po_1"))
    assert isinstance(sending.outcome, effects.Completed)
    assert sending.outcome.output == {"to": "[secret]"}
    with pytest.raises(effects.Declined), effects.sending(Wire, payload=transfer(), key="k2") as sending:
        raise effects.Declined(f"no {CANARY}")
    assert sending.outcome.message == "no [secret]"  # type: ignore[attr-defined]


# -- what it is compared by ----------------------------------------------------------------------------------------


def test_another_secret_under_the_same_key_is_another_payload() -> None:
    """A retry meets the execution; money to another account does not."""
    first = wired()
    assert wired().ref == first.ref
    with pytest.raises(exceptions.PayloadConflictError):
        wired(payload=transfer("DE00000000000000000000"))


def test_a_mark_tells_nothing_without_the_key() -> None:
    """No plain digest of it, and the same secret is another mark under another key of the project or execution."""
    rows = [row_of(wired(key=key)) for key in ("k1", "k2")]
    marks = {json.loads(row.payload)["account"]["$secret"] for row in rows}
    assert len(marks) == 2
    for digest in (hashlib.sha256, hashlib.md5, hashlib.sha1):
        guess = digest(CANARY.encode()).hexdigest()
        assert not any(guess[:16] in mark for mark in marks)


def test_a_retry_across_a_rotation_of_the_secret_key_is_no_other_payload(settings: Any) -> None:
    """Under SECRET_KEY_FALLBACKS it is compared exactly; beyond them it counts as the same, all else is compared."""
    first, old = wired(), settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new one", [old]
    assert wired().ref == first.ref
    with pytest.raises(exceptions.PayloadConflictError):
        wired(payload=transfer("DE00000000000000000000"))
    settings.SECRET_KEY_FALLBACKS = []
    assert wired().ref == first.ref
    assert wired(payload=transfer("DE00000000000000000000")).ref == first.ref
    with pytest.raises(exceptions.PayloadConflictError):
        wired(payload=transfer(amount=9))
    with pytest.raises(exceptions.PayloadConflictError):
        wired(payload=transfer(note="other"))


# -- what would have to wait ---------------------------------------------------------------------------------------


def test_what_is_sent_later_or_approved_first_is_refused_before_anything_is_written(settings: Any) -> None:
    """No worker and no approver's click has the secret: said when asked, with the way out."""
    person("bob")
    ask: list[tuple[Any, Any, dict[str, Any]]] = [
        (effects.perform_later, Wire, {}),
        (effects.perform, WireApproved, {}),
        (effects.perform, Wire, {"require_approval": True}),
    ]
    for call, effect, options in ask:
        with pytest.raises(exceptions.SecretNotKeptError, match="Pass a reference to it instead"):
            call(effect, payload=transfer(), key="k1", requested_by="ann", **options)
    settings.EFFECTS = {"RISK_RULES": {"high": effects.ApprovalRule(approvers="effects.approve_execution")}}
    with pytest.raises(exceptions.SecretNotKeptError, match="people must approve it first"):
        effects.perform(Wire, payload=transfer(), key="k1", requested_by="ann")
    assert not Execution.objects.exists()


@pytest.mark.parametrize("error", [effects.NotNow("later"), effects.NotSent("no route")])
def test_what_would_be_retried_fails_and_can_be_asked_anew(error: Exception) -> None:
    """Proven not applied, and nobody else can send it: it has failed. A successor brings the secret again."""
    failed = wired(error)
    assert isinstance(failed, effects.Failed)
    assert row_of(failed).reason == "attempts_spent"
    assert run_due() == {}
    again = wired(supersede=failed.ref)
    assert isinstance(again, effects.Completed)


def test_what_is_proven_absent_fails_and_is_not_sent_again() -> None:
    """Without a secret it would be sent again by a worker."""
    outcome = wired(TimeoutError())
    time_passes(timedelta(minutes=1))
    with provider_says(Wire, look_up=effects.Absent()):
        run_due()
    assert row_of(outcome).state == "failed"
    assert Receipt.objects.filter(event__in=["permit", "resend"]).count() == 1


def test_what_is_in_doubt_is_never_sent_again_without_it() -> None:
    """Neither on its own, although repeating would be safe, nor by a person's order, which says why not."""
    with provider_says(Fax, TimeoutError()) as said:
        outcome = effects.perform(Fax, payload=transfer(), key="k1")
        time_passes(timedelta(minutes=10))
        run_due()
        row = row_of(outcome)
        assert row.state == "needs_intervention"
        with pytest.raises(exceptions.WrongStateError, match="only the call that brought it could send it"):
            operators.order_resend(row.pk, revision=row.revision, by="bob", reason="they have nothing")
        assert len(said.sends) == 1


@pytest.mark.parametrize(
    "ready",
    [effects.Later(timedelta(hours=1), "not in the night"), effects.Refuse("blocked"), ZeroDivisionError("bug")],
)
def test_a_precondition_that_does_not_let_it_pass_ends_it(ready: Any) -> None:
    """There is no later for it; the reason is kept."""

    def answer(context: Any) -> Any:
        if isinstance(ready, Exception):
            raise ready
        return ready

    Wire.ready = staticmethod(answer)
    outcome = wired()
    assert isinstance(outcome, effects.Rejected)
    assert str(getattr(ready, "reason", "bug")) in outcome.message
    assert "only the call that brought it could send it" in outcome.message


def test_a_call_that_died_before_its_refusal_was_written_leaves_nothing_to_send() -> None:
    """A worker that finds the row pending ends it; it does not send a mask."""
    Wire.ready = staticmethod(lambda context: effects.Refuse("blocked"))
    real, sending.refuse_without_secret = (
        sending.refuse_without_secret,
        lambda *_: effects.get(Execution.objects.get().pk),
    )
    try:
        assert isinstance(wired(), effects.Pending)
    finally:
        sending.refuse_without_secret = real
    Wire.ready = staticmethod(lambda context: effects.Proceed())
    with provider_says(Wire) as said:
        run_due()
    assert (Execution.objects.get().state, said.sends) == ("rejected", [])


def test_an_undoing_knows_that_there_was_one() -> None:
    """`compensate` gets the payload as the journal keeps it; a worker may send it, since it needs no secret."""
    done = wired(effects.Applied(None, "po_1"))
    with provider_says(Wire, effects.NotNow("later"), effects.Applied(None, "re_1")) as said:
        undoing = effects.compensate(done.ref, requested_by="ann")
        time_passes(timedelta(minutes=1))
        run_due()
    assert isinstance(effects.get(undoing.ref).outcome, effects.Completed)
    assert [repr(context.payload.account) for context, _ in said.sends] == ["[secret]", "[secret]"]
    assert effects.compensate(done.ref, requested_by="bob").ref == undoing.ref


# -- a provider that repeats it ------------------------------------------------------------------------------------


def test_a_provider_that_repeats_a_secret_is_masked() -> None:
    """In output, reference and message, in the call that sends it; a short one would be found in half of all texts."""
    echoed = wired(effects.Applied({"echo": [f"to {CANARY}"], CANARY: 1}, f"po-{CANARY}"))
    assert (echoed.output, echoed.reference) == ({"echo": ["to [secret]"], "[secret]": 1}, "po-[secret]")  # type: ignore[attr-defined]
    failed = wired(effects.Declined(f"no account {CANARY}", code=CANARY), key="k2")
    assert (failed.message, failed.code) == ("no account [secret]", "[secret]")  # type: ignore[attr-defined]
    short = wired(effects.Declined("code 12 of 120"), payload=transfer("12"), key="k3")
    assert short.message == "code 12 of 120"  # type: ignore[attr-defined]


def test_a_secret_that_also_stands_openly_in_the_payload_is_refused() -> None:
    """A note that repeats the account is no better than the account."""
    with pytest.raises(exceptions.PayloadError, match=r"^\$.note: this holds a secret"):
        wired(payload=transfer(note=f"for {CANARY}"))
    assert not Execution.objects.exists()


def test_what_a_hook_raises_in_the_same_call_is_masked() -> None:
    """The error stays due and shows; its text is safe to show."""

    def then(context: Any, outcome: Any) -> None:
        raise ValueError(f"no {context.key} {CANARY}")

    Wire.then = staticmethod(then)
    outcome = wired()
    assert row_of(outcome).hook_error == "ValueError: no k1 [secret]"
