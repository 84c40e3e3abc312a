"""Proposing: which effects, with what payload."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_type_hints

from effects.declarations.effect import Effect, get_effect
from effects.http.api.callers import Caller
from effects.http.api.problems import ProposalError, pointer_to
from effects.runtime.perform import perform_later
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import EffectDefinitionError, PayloadError
from effects.vocabulary.outcomes import Outcome

__all__ = ["propose"]


def propose(caller: Caller, operation: str, payload: dict[str, Any]) -> Outcome:
    """*Joins.* Record what somebody else must approve before it is sent, whatever the effect's own rule says.

    Within a protected request, whose key makes it one.

    Raises:
        ProposalError: it may not be proposed, or the payload cannot be used; nothing was recorded.
        NobodyEntitledError: nobody could approve it; nothing was recorded.
    """
    effect = _find(operation, caller)
    loaded = _load(effect, payload)
    reason = effect.refuse_proposal(loaded, user=caller.user, tenant=caller.tenant)
    if reason:
        raise ProposalError("proposal_refused", reason=reason)
    return perform_later(
        effect.operation, payload=loaded, requested_by=caller.actor, on_behalf_of=caller.principal,
        tenant=caller.tenant, require_approval=True,
    )  # fmt: skip


def _find(operation: str, caller: Caller) -> Effect[Any]:
    """Return an effect that the caller may propose; who may not learns nothing of which ones there are."""
    try:
        effect = get_effect(operation)
    except EffectDefinitionError:
        raise ProposalError("not_proposable") from None
    needed = [part.strip() for part in effect.proposable_by.split("&")]
    if not effect.proposable_by or not caller.user.has_perms(needed):
        raise ProposalError("not_proposable")
    return effect


def _load(effect: Effect[Any], payload: dict[str, Any]) -> Any:
    """Return the payload as the declared type."""
    try:
        return effect.read(canonical.round_trip(payload))
    except PayloadError as error:
        errors = list(_errors(effect.payload_type, payload)) or [_error(error)]
        raise ProposalError("payload_invalid", errors=errors) from error


def _errors(cls: type[Any], payload: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield what is wrong with each field, so that a client hears of all at once; a plain dict declares none."""
    if not dataclasses.is_dataclass(cls):
        return
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    hints = get_type_hints(cls)
    for name, field in fields.items():
        if name in payload:
            try:
                canonical.hydrate(hints[name], canonical.round_trip(payload[name]))
            except PayloadError as error:
                yield _error(error, name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            yield {"pointer": pointer_to(name), "detail": "This field is missing."}
    for name in payload.keys() - fields.keys():
        yield {"pointer": pointer_to(name), "detail": "There is no such field."}


def _error(error: PayloadError, field: str = "") -> dict[str, str]:
    within = error.path.removeprefix("$")
    return {"pointer": pointer_to(field + within), "detail": str(error).removeprefix(f"{error.path}: ")}
