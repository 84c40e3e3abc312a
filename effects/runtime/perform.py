"""The calls that projects make: perform an effect now, later, or undo one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import models, transaction
from django.utils.asyncio import async_unsafe

from effects import transitions
from effects.conf import settings
from effects.declarations.effect import Effect, get_effect
from effects.journal import lineage, queries, redaction
from effects.journal.commits import after_commit, is_beside, reaching, refuse_open_transactions, telling
from effects.journal.current import RequestHandle, current
from effects.models import Execution
from effects.people.actors import actor_of
from effects.runtime import sending as _sending
from effects.runtime.dispatch import send_hint
from effects.runtime.test_runs import UnscriptedCallError, refuse_real_call
from effects.transitions.intents import Intent, binding_of, make_intent, refuse_to_wait
from effects.transitions.settlement import in_tenant
from effects.vocabulary.exceptions import (
    EffectDefinitionError,
    EffectsError,
    JournalBesideError,
    LocalWriteError,
    WrongStateError,
)
from effects.vocabulary.failures import classify, read_answer
from effects.vocabulary.outcomes import Outcome
from effects.vocabulary.types import Context, Permit, SendResult

__all__ = ["Sending", "aget", "aperform", "compensate", "perform", "perform_later", "sending", "supersede"]

P = TypeVar("P")
F = TypeVar("F", bound=Callable[..., Any])


def _blocking(name: str, instead: str) -> Callable[[F], F]:
    """Refuse calls from async code, in words; without Django's stubs its own decorator would make them untyped."""
    refuse: Callable[[F], F] = async_unsafe(f"effects.{name} blocks, and this is async code: write `await {instead}`.")
    return refuse


@_blocking("perform", "effects.aperform(…)")
def perform(
    effect: type[Effect[P]] | str,
    *,
    payload: P | Mapping[str, Any],
    key: str | None = None,
    requested_by: Any = None,
    on_behalf_of: Any = None,
    tenant: str | None = None,
    about: models.Model | None = None,
    require_approval: bool = False,
    supersede: str | UUID | None = None,
) -> Outcome:
    """Do the effect once for this key, and return what is known of it.

    Commits before the provider is called (record and permit) and after (the outcome, with your `settled` rows). If the
    key is known already nothing is sent again: its outcome is returned; a due one is sent on. Whatever happens to this
    process, the execution is then finished by the sweeps.

    Args:
        effect: a registered effect, or its operation.
        payload: what is sent: the effect's payload type, or a dict of its fields. An `effects.Secret` in it is sent
            by this call or not at all.
        key: what makes it one occurrence: "order-17". Inside a protected request it may be left out.
        requested_by: the user who asks, or a text that names a program; inside a protected request its own user by
            default. A text that is a user's id, number or name is that user.
        on_behalf_of: for whom they ask, said in the same way; may not approve it either.
        tenant: whose it is; the request's by default.
        about: your own object, for finding it again.
        require_approval: ask people even where the effect's rule does not, and never those who ask for it.
        supersede: the ref of a failed or rejected execution whose key this one takes over, under a new provider key:
            how one asks again, corrects an amount, charges again after a decline. Repeated, it meets the successor.

    Returns:
        An `Outcome`: ask it for `require()`, or look at its class.

    Raises:
        OpenTransactionError: a transaction is open; use `perform_later` there. Nothing was written.
        PayloadError, KeyRequiredError, NameUnusableError, ActorError, PayloadConflictError, NobodyEntitledError,
            DuplicatePerformError: nothing sent.
        SecretNotKeptError: the payload holds a secret, and people must approve it first; nothing was recorded.
        PayloadUnreadableError: the key is known and its payload cannot be compared any more; nothing was sent.
        WrongStateError: what it should supersede is neither failed nor rejected; nothing sent.
        UndeclaredEffectError, RequestEndedError: the request does not allow it; nothing sent.
        CapacityError: outside of a protected request, the tenant is at a limit; nothing was recorded.
        JournalIdError: the journal has lost its id, so that a new key has no provider key; nothing was recorded.
        JournalUnavailableError: the journal was out of reach, too busy, or its commit could not be proven; nothing was
            sent by this call. No error of the database itself comes out of it.
        OutcomeUnrecordedError: the exception to that: it was sent, and what became of it could not be written down.
            `effect_may_have_happened` is true; it is in doubt once its lease is past.
    """
    refuse_open_transactions(f"effects.perform({_name(effect)})")
    found, handle = _find(effect)
    said = _said(
        _following(supersede, handle), key=key, on_behalf_of=on_behalf_of, tenant=tenant, about=about,
        require_approval=require_approval or None,
    )  # fmt: skip
    with redaction.hiding(payload):
        intent = _intent(found, handle, payload, requested_by=requested_by, **said)
        return _perform(intent, handle)


@contextmanager
def sending(
    effect: type[Effect[P]] | str,
    *,
    payload: P | Mapping[str, Any],
    key: str | None = None,
    requested_by: Any = None,
    on_behalf_of: Any = None,
    tenant: str | None = None,
    about: models.Model | None = None,
    require_approval: bool = False,
) -> Iterator[Sending]:
    """Make the call of an effect yourself, in the block, where `Effect.send` cannot: a stream, a client already open.

    Commits before the block (record and permit) and after it (the outcome). In the block, `sending.permit` is the
    licence for one call, or None: then nothing may be sent, and `sending.outcome` says why. Say what the provider
    answered with `sending.report(…)`. A block that ends without a word, or by an exception, is judged as `Effect.send`
    would be: in doubt, unless the exception proves that nothing was done. The exception goes on. Later sends of the
    same execution (after a proven absence, by a worker) are `Effect.send`'s.

    Args: as `perform`.

    Raises:
        As `perform`, before the block.
    """
    refuse_open_transactions(f"effects.sending({_name(effect)})")
    found, handle = _find(effect)
    with redaction.hiding(payload):
        intent = _intent(
            found, handle, payload, key=key, requested_by=requested_by, on_behalf_of=on_behalf_of, tenant=tenant,
            about=about, require_approval=require_approval,
        )  # fmt: skip
        granted = _sending.license_intent(intent, handle)
        if isinstance(granted, _sending.License) and granted.permit.remaining() <= timedelta(0):
            granted = _sending.record_report(granted, transitions.NotSentInTime())
        if not isinstance(granted, _sending.License):
            yield Sending(None, None, granted.outcome)
            return
        try:
            refuse_real_call(found, "sending")
        except UnscriptedCallError as error:
            _sending.record_report(granted, _sending.not_called(error))
            raise
        block = Sending(granted.permit, granted.context, granted.execution.outcome)
        try:
            yield block
        except BaseException as error:
            # what was reported before it stands: the provider has answered
            report = classify(error) if block.answer is None else read_answer(block.answer)
            _sending.log_failure(found, granted.context, report, error if block.answer is None else None)
            block.outcome = _sending.record_report(granted, report).outcome
            raise
        report = read_answer(block.answer)
        _sending.log_failure(found, granted.context, report)
        block.outcome = _sending.record_report(granted, report).outcome


class Sending:
    """A block that makes the call itself: `permit` and `context` as `Effect.send` gets them, and the `outcome`.

    `permit` and `context` are None where nothing may be sent. `outcome` is how the execution stands; after the block,
    how it came out.
    """

    def __init__(self, permit: Permit | None, context: Context[Any] | None, outcome: Outcome) -> None:
        self.permit, self.context, self.outcome = permit, context, outcome
        self.answer: SendResult | None = None

    def report(self, answer: SendResult) -> None:
        """Say what the provider answered: `Applied`, `Partial` or `Submitted`. Recorded when the block is left.

        Raises:
            WrongStateError: there is no permit, or the answer was given already.
        """
        if self.permit is None:
            raise WrongStateError("There is no permit for a call here; look at sending.outcome before the call.")
        if self.answer is not None:
            raise WrongStateError("One permit is one call, and its answer was reported already.")
        self.answer = answer


@_blocking("perform_later", "sync_to_async(effects.perform_later)(…)")
def perform_later(
    effect: type[Effect[P]] | str,
    *,
    payload: P | Mapping[str, Any],
    key: str | None = None,
    requested_by: Any = None,
    on_behalf_of: Any = None,
    tenant: str | None = None,
    about: models.Model | None = None,
    require_approval: bool = False,
) -> Outcome:
    """Record the effect in the caller's transaction; it is sent after the commit, by a worker or a sweep.

    Joins: rolls back with the caller's rows. Does not hold back the answer of the request that it is called in.

    Args: as `perform`.

    Returns:
        `Pending` or `AwaitingApproval`, or the outcome of a known key.

    Raises:
        PayloadError, KeyRequiredError, PayloadConflictError, NobodyEntitledError, CapacityError, JournalIdError:
            nothing was written.
        SecretNotKeptError: the payload holds a secret, which no worker would have; nothing was written.
        JournalBesideError: the journal is another database than the project's; nothing was written.
        LocalWriteError: a view with `performs=` calls it outside of `finishing()`; nothing was written.
        JournalUnavailableError: the journal was out of reach or too busy; roll your transaction back.
    """
    if is_beside():
        raise JournalBesideError(
            "perform_later joins the transaction of your rows, and the journal is another database "
            f"({settings.DATABASE!r}): one could commit without the other. Call effects.perform after your commit."
        )
    found, handle = _find(effect)
    with redaction.hiding(payload):
        intent = _intent(
            found, handle, payload, key=key, requested_by=requested_by, on_behalf_of=on_behalf_of, tenant=tenant,
            about=about, require_approval=require_approval,
        )  # fmt: skip
    refuse_to_wait(intent, "a worker would send it later")
    try:
        with telling(), reaching("performing an effect later"), transaction.atomic(using=settings.DATABASE):
            execution = transitions.record_later(intent, handle=handle).execution
            after_commit(functools.partial(send_hint, str(execution.id)))
    except LocalWriteError:
        raise LocalWriteError(
            f"perform_later({_name(effect)}) in a view that declares performs= joins a transaction, and there is none "
            "here that commits with the answer. Call it in `with effects.current().finishing():`, or in the settled() "
            "of the effect that it follows; or call effects.perform, whose outcome holds the answer."
        ) from None
    return execution.outcome


def compensate(
    ref: str | UUID,
    *,
    requested_by: Any = None,
    on_behalf_of: Any = None,
    require_approval: bool = False,
    reason: str = "",
    revision: int | None = None,
) -> Outcome:
    """Undo a completed execution, with the effect's `compensate`, as a new execution that names it.

    One original has one undoing, whoever asks and how often. Commits as `perform`; called by a request's handler it
    holds the request's answer as `perform` does.

    Args:
        ref: the completed execution.
        requested_by: who asks, as for `perform`.
        on_behalf_of: for whom they ask.
        require_approval: ask people even where the effect's rule does not.
        reason: why, in a person's words; kept on the receipt.
        revision: the original's that a person saw; None: whatever it is now.

    Raises:
        EffectDefinitionError: the effect is not `reversible`.
        WrongStateError: the original is not completed (any more); nothing was sent.
        UndeclaredEffectError, RequestEndedError: the request does not allow it; nothing was sent.
        StaleRevisionError: the original changed since they looked; nothing was sent.
        OpenTransactionError: a transaction is open.
    """
    refuse_open_transactions("effects.compensate")
    with reaching("undoing an effect"):
        original = Execution.objects.get(pk=queries.get(ref).id)
    with telling(original.may_have_happened):
        found, handle = _find(original.operation)
        if not found.reversible:
            raise EffectDefinitionError(f"{original.operation} is not reversible: its effect declares no undoing")
        if original.compensates_id is not None:
            raise WrongStateError("An undoing is not undone itself; perform the effect anew under a key of its own.")
    with in_tenant(original.tenant):  # whoever orders it need not be there: an operator's page, a task
        intent = _intent(
            found, handle, found.load(original.payload, original.payload_version),
            requested_by=requested_by, require_approval=require_approval, reason=reason, seen_revision=revision,
            **_said(lineage.undoing_of(original), on_behalf_of=on_behalf_of),
        )  # fmt: skip
        return _perform(intent, handle)


def supersede(
    ref: str | UUID, *, requested_by: Any, reason: str, revision: int | None = None, payload: Any = None
) -> Outcome:
    """Ask again for an execution that failed or was rejected: a person's way to `perform(…, supersede=ref)`.

    The successor takes over the key, under a new provider key. Nobody who asked for the old one approves the new one.
    Commits as `perform`; repeated, it meets the successor.

    Args:
        ref: the one that failed or was rejected.
        requested_by: the person who asks again.
        reason: why, in their words; kept on both receipts.
        revision: the old one's that they saw; None: whatever it is now.
        payload: the corrected one; None: the same again.

    Raises:
        WrongStateError: it is neither failed nor rejected, or its key is that of a request which has ended.
        StaleRevisionError: it changed since they looked; nothing was sent.
        NobodyEntitledError, PayloadError, OpenTransactionError, JournalUnavailableError: as `perform`.
        UndeclaredEffectError, RequestEndedError: the request that it is called in does not allow it.
    """
    refuse_open_transactions("effects.supersede")
    with reaching("asking again"):
        old = Execution.objects.select_related("compensates").get(pk=queries.get(ref).id)
    with telling(old.may_have_happened):
        found, handle = _find(old.operation)
    with in_tenant(old.tenant), redaction.hiding(payload):
        intent = _intent(
            found, handle, found.load(old.payload, old.payload_version) if payload is None else payload,
            requested_by=requested_by, reason=reason, seen_revision=revision,
            **lineage.successor_of(old),
        )  # fmt: skip
        return _perform(intent, handle)


#: `perform` for async code: the journal's work and the call run in a thread.
aperform = sync_to_async(perform, thread_sensitive=True)
#: `get` for async code.
aget = sync_to_async(queries.get, thread_sensitive=True)


def _perform(intent: Intent, handle: RequestHandle | None) -> Outcome:
    found = _sending.license_intent(intent, handle)
    return (_sending.send(found) if isinstance(found, _sending.License) else found).outcome


@contextmanager
def _telling_of_key(effect: Effect[Any], tenant: str, key: str | None) -> Iterator[None]:
    """Let an error that comes before the key was looked for say of a known key, too, whether it may have happened."""
    try:
        yield
    except EffectsError as error:
        if key and not error.effect_may_have_happened:
            with suppress(Exception):  # the key or the tenant may be what is wrong
                known = Execution.objects.filter(binding=binding_of(tenant, effect.keyed_as, key), holds_key=True)
                error.effect_may_have_happened = any(row.may_have_happened for row in known)
        raise


def _find(effect: type[Effect[Any]] | str) -> tuple[Effect[Any], RequestHandle | None]:
    found, handle = get_effect(effect), current()
    if handle is not None:
        handle.check_declared(found.operation)
    return found, handle


def _intent(
    effect: Effect[Any],
    handle: RequestHandle | None,
    payload: Any,
    *,
    tenant: str | None,
    requested_by: Any,
    on_behalf_of: Any,
    **options: Any,
) -> Intent:
    if handle is not None:
        tenant = handle.tenant if tenant is None else tenant
    with reaching("telling who asks"):
        asker = actor_of(requested_by, "requested_by=")
        acted_for = actor_of(on_behalf_of, "on_behalf_of=")
    if asker is None and handle is not None and requested_by is None:
        asker = handle.actor
    with _telling_of_key(effect, tenant or "", options.get("key")):
        return make_intent(
            effect, payload, request=handle.id if handle else None, tenant=tenant or "",
            requested_by=asker, on_behalf_of=acted_for, **options,
        )  # fmt: skip


def _name(effect: type[Effect[Any]] | str) -> str:
    return effect.__name__ if isinstance(effect, type) else str(effect)


def _following(supersede: str | UUID | None, handle: RequestHandle | None) -> dict[str, Any]:
    """Return what an intent says of what it supersedes; nothing where it supersedes nothing."""
    if supersede is None:
        return {}
    with reaching("performing an effect"):
        old = Execution.objects.select_related("compensates").get(pk=queries.get(supersede).id)
        inherited = lineage.successor_of(old)
    if handle is not None:
        # a request works for its own tenant, whatever it names
        inherited["tenant"] = handle.tenant
    return inherited


def _said(inherited: dict[str, Any], **said: Any) -> dict[str, Any]:
    """Return what the caller says, and where they say nothing what is inherited."""
    return {**said, **{name: value for name, value in inherited.items() if said.get(name) is None}}
