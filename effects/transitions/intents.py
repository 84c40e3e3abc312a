"""Intents: all that is recorded about an execution before it is sent, made outside of any transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import models

from effects.declarations.effect import Effect
from effects.journal import redaction
from effects.journal.summaries import digest_of_summary, summary_of
from effects.models.base import new_id
from effects.people.risk_rules import project_rules_of
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import (
    EffectDefinitionError,
    KeyRequiredError,
    PayloadUnreadableError,
    SecretNotKeptError,
)
from effects.vocabulary.fidelity import refuse_changed
from effects.vocabulary.frozen_rules import rule_as_json
from effects.vocabulary.names import about_of, check_name, is_storable
from effects.vocabulary.types import Actor, ApprovalRule, Context, Predecessor

__all__ = [
    "Intent",
    "approval_digest",
    "binding_of",
    "context_of_intent",
    "is_same_payload",
    "make_intent",
    "refuse_to_wait",
]

#: The longest key, and the longest label of a model; the columns' widths.
MAX_KEY, MAX_LABEL = 255, 100


@dataclass(frozen=True)
class Intent:
    """What one execution will do, for whom, under which rule.

    Attributes:
        require_approval: whether people were to be asked whatever the effect's own rule says; so its successor does.
        derived_from: what it undoes or asks for again, as people are told.
        reason: why a person has an older one undone or superseded, in their words.
        seen_revision: the older one's that they saw; None: they saw no page.
    """

    id: UUID
    effect: Effect[Any]
    tenant: str
    key: str
    binding: str
    payload: Any
    payload_text: str
    payload_digest: str
    requested_by: Actor | None
    on_behalf_of: Actor | None
    about: tuple[str, str] | None
    summary: dict[str, Any]
    summary_digest: str
    rule: ApprovalRule | None
    holds_secrets: bool = False
    derived_key: bool = False
    require_approval: bool = False
    generation: int = 1
    supersedes: UUID | None = None
    compensates: UUID | None = None
    derived_from: tuple[Predecessor, ...] = ()
    reason: str = ""
    seen_revision: int | None = None

    @property
    def operation(self) -> str:
        """The effect's operation."""
        return self.effect.operation

    @property
    def contract(self) -> dict[str, Any]:
        """The frozen settings, the approval rule included.

        With a secret, which is gone after this call, there is one send: no retry, no resend.
        """
        frozen = {**self.effect.contract(), "approval": rule_as_json(self.rule)}
        if self.require_approval:
            frozen["require_approval"] = True
        if self.holds_secrets:
            once = {**frozen["retry"], "attempts": 1}
            frozen.update(secrets=True, retry=once, repeatable=False, deduplicated_for=None)
        return frozen

    @property
    def requesters(self) -> list[dict[str, str]]:
        """All who asked or were acted for; none of them approves."""
        found = {actor.id: actor.as_json() for actor in (self.requested_by, self.on_behalf_of) if actor}
        return list(found.values())


def binding_of(tenant: str, operation: str, key: str) -> str:
    """Return an execution's binding. No subject: a redirect, a webhook and a task meet in one execution."""
    return canonical.digest("effects.execution", tenant, operation, key)


def approval_digest(
    *,
    operation: str,
    provider: str,
    tenant: str,
    key: str,
    payload_digest: str,
    summary_digest: str,
    rule: dict[str, Any] | None,
    purpose: str,
) -> str:
    """Return the digest of all that an approver decides about: contents, target, what was shown, rule and window."""
    frozen = canonical.dump(canonical.clean_json(rule or {}))
    return canonical.digest(
        "effects.approval", operation, provider, tenant, key, payload_digest, summary_digest, frozen, purpose
    )


def make_intent(
    effect: Effect[Any],
    payload: Any,
    *,
    key: str | None,
    request: UUID | None,
    tenant: str,
    requested_by: Actor | None,
    on_behalf_of: Actor | None,
    about: models.Model | tuple[str, str] | None,
    require_approval: bool,
    supersedes: UUID | None = None,
    compensates: UUID | None = None,
    derived_from: tuple[Predecessor, ...] = (),
    reason: str = "",
    seen_revision: int | None = None,
) -> Intent:
    """Build an intent; runs `describe` and `approval`, so outside of any transaction of ours.

    Raises:
        KeyRequiredError: outside of a request there is nothing to derive a key from.
        NameUnusableError: `tenant=` or `about=` does not fit its column.
        PayloadError: the payload holds what cannot be recorded exactly, or is of another type than declared.
        SecretNotKeptError: the payload holds a secret and people must decide first.
        ImproperlyConfigured: `RISK_RULES` is wrong.
    """
    check_name("tenant=", tenant, least=0)
    named = None if about is None else about_of(about)
    derived, key = key is None, _key_of(effect, key, request)
    binding = binding_of(tenant, effect.keyed_as, key)
    # of the declared type: a dict of its fields, defaults left out, is the same payload
    loaded = effect.read(canonical.round_trip(payload))
    recorded = canonical.round_trip(loaded)
    # what the caller wrote, what this process sends and what a worker sends are the same
    refuse_changed(payload, loaded)
    refuse_changed(loaded, effect.read(recorded))
    redaction.refuse_redactable(recorded)
    text, holds_secrets = redaction.seal(loaded, binding)
    intent = Intent(
        id=new_id(), effect=effect, tenant=tenant, key=key, binding=binding, holds_secrets=holds_secrets,
        payload=loaded, payload_text=text, payload_digest=canonical.digest("effects.payload", text),
        requested_by=requested_by, on_behalf_of=on_behalf_of, about=named,
        summary={}, summary_digest="", rule=None, derived_key=derived,
        require_approval=bool(require_approval), supersedes=supersedes, compensates=compensates,
        derived_from=derived_from, reason=reason, seen_revision=seen_revision,
    )  # fmt: skip
    context = context_of_intent(intent)
    summary = summary_of(effect, context)
    rule = _tightened(effect, effect.approval(context))
    if require_approval:
        # who asks is not who agrees, also where the effect itself would let them
        rule = replace(rule, four_eyes=True) if rule else ApprovalRule(approvers="effects.approve_execution")
    if rule is not None:
        refuse_to_wait(intent, "people must approve it first")
    return replace(intent, summary=summary, summary_digest=digest_of_summary(summary), rule=rule)


def _key_of(effect: Effect[Any], key: str | None, request: UUID | None) -> str:
    """Return the caller's key, or the one that is derived from their request."""
    if key is not None:
        if not (key and is_storable(key, MAX_KEY)):
            raise KeyRequiredError(f"key= is a text of 1 to {MAX_KEY} storable characters, not {key!r:.80}")
        return key
    if request is None:
        raise KeyRequiredError(
            f"{effect.operation}: outside of a protected request say what makes it one: key='order-17'. In a thread "
            "that a protected view has started itself, the request is not known either."
        )
    return f"request:{request}"


def refuse_to_wait(intent: Intent, why: str) -> None:
    """Refuse to record what would be sent later, by a process that has not got its secrets.

    Raises:
        SecretNotKeptError: the payload holds a secret; nothing was recorded.
    """
    if intent.holds_secrets:
        raise SecretNotKeptError(
            f"{intent.operation} {intent.key!r} holds an effects.Secret, which is kept nowhere, and {why}. Pass a "
            "reference to it instead, and fetch it in send()."
        )


def is_same_payload(intent: Intent, *, text: str, digest: str, version: int) -> bool:
    """Return whether the intent's payload is the one that was recorded, its secrets included.

    A secret is compared under `SECRET_KEY` and its fallbacks. Where the key that marked it is none of them any more it
    cannot be told, and counts as the same: a rotation makes no retry another payload.

    Args:
        intent: what is asked for now.
        text: the recorded payload; empty: retention dropped it.
        digest: of the recorded payload.
        version: the `payload_version` that it was recorded under.

    Raises:
        PayloadUnreadableError: the recorded one cannot be read any more, and is not the same bytes, so that nobody can
            tell.
    """
    if version != intent.effect.payload_version:
        try:
            text = canonical.dump(intent.effect.load(text, version))
        except PayloadUnreadableError:
            if digest != intent.payload_digest:
                raise
            return True
        digest = canonical.digest("effects.payload", text)
    if digest == intent.payload_digest:
        return True
    keys = redaction.known_keys() if intent.holds_secrets else [""]
    sealed = [canonical.dump(intent.payload, mark=redaction.marker(intent.binding, key)) for key in keys]
    if any(canonical.digest("effects.payload", one) == digest for one in sealed):
        return True
    if not intent.holds_secrets:
        return False
    if not text:
        raise PayloadUnreadableError("Retention dropped the recorded payload, and its secrets cannot be compared.")
    return redaction.blank(text) == canonical.dump(intent.payload)


def _tightened(effect: Effect[Any], said: object) -> ApprovalRule | None:
    """Return the effect's own rule together with the project's."""
    if said is not None and not isinstance(said, ApprovalRule):
        what = f"approval() of {effect.operation} returned {said!r:.80}"
        raise EffectDefinitionError(f"{what}: return effects.ApprovalRule(approvers='app.codename') or None")
    rule = said
    for demanded in project_rules_of(effect):
        rule = demanded.tightened(rule)
    return rule


def context_of_intent(intent: Intent) -> Context[Any]:
    """Return what an effect's methods are told before there is a row, and so no provider key."""
    return Context(
        ref=str(intent.id), operation=intent.operation, payload=intent.payload, tenant=intent.tenant, key=intent.key,
        provider_key="", requested_by=intent.requested_by, on_behalf_of=intent.on_behalf_of,
        attempt=0, reference="", about=intent.about,
        compensates=str(intent.compensates) if intent.compensates else None, derived_from=intent.derived_from,
    )  # fmt: skip
