"""Filters of the lists, from the state machines and the declarations: none asks the tables for its choices."""

# Django's hooks are given more than each needs.
# ruff: noqa: ARG002

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from effects.effect import registered
from effects.operations import operations
from effects.states import (
    EXECUTION_IN_DOUBT,
    EXECUTION_OPEN,
    EXECUTION_SETTLED,
    ApprovalPurpose,
    ApprovalState,
    ExecutionReason,
    ExecutionState,
    RequestReason,
    RequestState,
    Word,
    values,
)
from effects.types import Risk
from effects_admin.words import EVENTS, REASONS, label

__all__ = [
    "ApprovalStateFilter",
    "BoundedPaginator",
    "EventFilter",
    "ExecutionOperationFilter",
    "ExecutionReasonFilter",
    "ExecutionStateFilter",
    "ProviderFilter",
    "PurposeFilter",
    "RequestOperationFilter",
    "RequestReasonFilter",
    "RequestStateFilter",
    "RiskFilter",
]


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Pages over the newest rows, without a COUNT over the table: counting stops at `LIMIT`."""

    LIMIT = 1000

    @cached_property
    def count(self) -> int:
        """Return how many rows there are, `LIMIT` at most."""
        return min(self._found, self.LIMIT)

    @property
    def is_cut(self) -> bool:
        """Whether there are more rows than `LIMIT`."""
        return self._found > self.LIMIT

    @cached_property
    def _found(self) -> int:
        rows: Any = self.object_list
        found: int = rows.order_by()[: self.LIMIT + 1].count()
        return found


class WordFilter(admin.SimpleListFilter):
    """Filters a column by words that are known without asking the table. Other words filter nothing."""

    column: ClassVar[str] = ""

    def words(self) -> Iterable[tuple[str, str]]:
        """Return the (value, label) pairs."""
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return list(self.words())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows with the chosen word."""
        chosen = self.value()
        if chosen is None or chosen not in dict(self.lookup_choices):
            return queryset
        return queryset.filter(**{f"{self.column or self.parameter_name}__in": self.meant(chosen)})

    def meant(self, chosen: str) -> list[str]:
        """Return the stored words that a choice stands for."""
        return [chosen]


class _StateFilter(WordFilter):
    title, parameter_name = "state", "state"
    states: ClassVar[type[Word]]
    groups: ClassVar[dict[str, frozenset[Any]]] = {}

    def words(self) -> Iterable[tuple[str, str]]:
        return [*((name, f"{label(name)} (all)") for name in self.groups), *self.states.choices()]

    def meant(self, chosen: str) -> list[str]:
        return values(self.groups[chosen]) if chosen in self.groups else [chosen]


class ExecutionStateFilter(_StateFilter):
    """By state, or by group of states."""

    states = ExecutionState
    groups = {"open": EXECUTION_OPEN, "in_doubt": EXECUTION_IN_DOUBT, "settled": EXECUTION_SETTLED}


class RequestStateFilter(_StateFilter):
    """By state."""

    states = RequestState


class ApprovalStateFilter(_StateFilter):
    """By state."""

    states = ApprovalState


class _ReasonFilter(WordFilter):
    title, parameter_name = "reason", "reason"
    reasons: ClassVar[type[Word]]

    def words(self) -> Iterable[tuple[str, str]]:
        return [(str(reason), REASONS.get(reason, label(reason))) for reason in self.reasons if reason]


class ExecutionReasonFilter(_ReasonFilter):
    """By reason."""

    reasons = ExecutionReason


class RequestReasonFilter(_ReasonFilter):
    """By reason."""

    reasons = RequestReason


class ExecutionOperationFilter(WordFilter):
    """By operation, of the registered effects."""

    title, parameter_name = "operation", "operation"

    def words(self) -> Iterable[tuple[str, str]]:
        """Return the operations and their earlier names."""
        names = {name for effect in registered() for name in (effect.operation, *effect.aliases)}
        return [(name, name) for name in sorted(names)]


class ProviderFilter(WordFilter):
    """By provider, of the registered effects."""

    title, parameter_name = "provider", "provider"

    def words(self) -> Iterable[tuple[str, str]]:
        """Return the providers."""
        return [(name, name) for name in sorted({effect.provider for effect in registered()})]


class RequestOperationFilter(WordFilter):
    """By operation, of the protected views."""

    title, parameter_name = "operation", "operation"

    def words(self) -> Iterable[tuple[str, str]]:
        """Return the views' operations."""
        return [(name, name) for name in sorted(operations())]


class RiskFilter(WordFilter):
    """By declared risk."""

    title, parameter_name = "risk", "risk"

    def words(self) -> Iterable[tuple[str, str]]:
        """Return the risks."""
        return Risk.choices()


class PurposeFilter(WordFilter):
    """By what an approval licenses."""

    title, parameter_name = "purpose", "purpose"

    def words(self) -> Iterable[tuple[str, str]]:
        """Return the purposes."""
        return ApprovalPurpose.choices()


class EventFilter(WordFilter):
    """By verb."""

    title, parameter_name = "event", "event"

    def words(self) -> Iterable[tuple[str, str]]:
        """Return the verbs."""
        return [(name, label(name)) for name in sorted(EVENTS)]
