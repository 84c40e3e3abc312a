"""Contents: payload, summary and keys are what their digests say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from effects.declarations.effect import Effect, get_effect
from effects.inspection.audit.findings import Finding
from effects.journal.provider_keys import derive_key, occurrence_of
from effects.journal.summaries import digest_of_summary
from effects.models import Execution, Journal, Request
from effects.transitions.intents import binding_of
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import EffectDefinitionError, PayloadError

__all__ = ["journal_ids", "of_execution", "of_request"]


def of_execution(row: Execution, known: Sequence[str]) -> Iterator[Finding]:
    """Yield what an execution's digests do not cover; `known` are the ids of the journal."""
    for code, wrong in _wrong(row, known):
        yield Finding(code, "execution", str(row.pk), wrong)


def of_request(row: Request) -> Iterator[Finding]:
    """Yield it if a request's binding is not the one of its key."""
    if row.binding != canonical.digest("effects.request", row.tenant, row.subject, row.scope, row.key):
        yield Finding("binding", "request", str(row.pk), f"the binding is not the one of {row.key!r}")


def _wrong(row: Execution, known: Sequence[str]) -> Iterator[tuple[str, str]]:
    # a tombstone has neither any more; the digests stay
    if row.pruned_at is None and canonical.digest("effects.payload", row.payload) != row.payload_digest:
        yield "payload_digest", "the payload's digest is another one"
    if row.pruned_at is None and _summary_digest(row) != row.summary_digest:
        yield "summary_digest", "the summary's digest is another one"
    effect = _effect(row)
    # an operation that is gone may have been keyed as an earlier name, which nobody knows any more
    if effect is not None and row.binding != binding_of(row.tenant, effect.keyed_as, row.key):
        yield "binding", f"the binding is not the one of {row.operation} {row.key!r}"
    if effect is not None and effect.provider == row.provider:
        occurrence = occurrence_of(effect, row.tenant, row.key, row.generation)
        # a row keeps its key when the journal gets another id
        expected = [derive_key(journal_id, occurrence) for journal_id in known]
        if row.provider_key not in expected:
            yield "provider_key", f"it is {row.provider_key}, generation {row.generation} has {' or '.join(expected)}"


def _summary_digest(row: Execution) -> str:
    try:
        return digest_of_summary(row.summary)
    except PayloadError:  # no summary of ours holds a float
        return ""


def journal_ids() -> list[str]:
    """Return the journal's id and its earlier ones, the newest first; none where it has lost its row."""
    return [text for one in Journal.objects.all() for text in (str(one.id), *reversed(one.former_ids))]


def _effect(row: Execution) -> Effect[Any] | None:
    try:
        return get_effect(row.operation)
    except EffectDefinitionError:
        return None
