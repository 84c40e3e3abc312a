"""Filters of the lists, from the state machines and declarations; the tables are asked only which reasons occur."""

# Django's hooks are given more than each needs.
# ruff: noqa: ARG002

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.contrib.postgres.aggregates import ArrayAgg
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.functional import cached_property

from effects.declarations.effect import registered
from effects.declarations.operations import operations
from effects.vocabulary.states import (
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
from effects.vocabulary.types import Risk
from effects_admin.display import odd_currencies, visible
from effects_admin.words import EVENTS, REASONS, label

__all__ = [
    "AgeFilter",
    "AmountFilter",
    "ApprovalStateFilter",
    "BoundedChangeList",
    "BoundedPaginator",
    "EventFilter",
    "ExecutionOperationFilter",
    "ExecutionReasonFilter",
    "ExecutionStateFilter",
    "NameFilter",
    "ProviderFilter",
    "PurposeFilter",
    "RequestOperationFilter",
    "RequestReasonFilter",
    "RequestStateFilter",
    "RiskFilter",
    "age_choices",
    "amount_choices",
    "of_age",
    "of_amount",
    "with_name",
]

#: Thresholds of the amount filter, in whole units of a currency.
AMOUNTS = (100, 1_000, 10_000, 100_000)


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


class BoundedChangeList(ChangeList):
    """A list that no choice of filters makes slow: where no index answers it, it looks through the newest rows alone.

    Attributes:
        looked_through: how many rows it was narrowed to, newest first (below a chosen age); 0: all of them.
    """

    LOOK_BACK = 20_000

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        """Return the rows that are listed."""
        rows: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        console: Any = self.model_admin
        rows = console.listed(request, rows)
        self.looked_through = 0
        if not console.may_view(request) or self.query or console.is_answered_by_an_index(self.filter_params):
            return rows
        column = console.newest_column
        newest = self.model._default_manager.order_by(f"-{column}")
        if column == "created_at":
            newest = newest.filter(of_age(self._chosen(AgeFilter.parameter_name)))
        horizon = newest.values_list(column, flat=True)[self.LOOK_BACK : self.LOOK_BACK + 1].first()
        if horizon is None:
            return rows
        self.looked_through = self.LOOK_BACK
        return rows.filter(**{f"{column}__gt": horizon})

    def _chosen(self, parameter: str) -> str:
        given = self.filter_params.get(parameter) or [""]
        return str(given[-1] if isinstance(given, list) else given)


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


class AgeFilter(WordFilter):
    """By how long ago it was recorded."""

    title, parameter_name = "age", "age"
    spans: ClassVar[dict[str, timedelta]] = {
        "hour": timedelta(hours=1),
        "day": timedelta(days=1),
        "week": timedelta(days=7),
        "month": timedelta(days=30),
    }

    def words(self) -> Iterable[tuple[str, str]]:
        """Return the ages: younger than, and older than."""
        return age_choices()

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows of that age."""
        return queryset.filter(of_age(self.value() or ""))


class AmountFilter(WordFilter):
    """By amount, in whole units of whatever currency a row has."""

    title, parameter_name = "amount", "amount"

    def words(self) -> Iterable[tuple[str, str]]:
        """Return the thresholds."""
        return amount_choices()

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows with that amount or more."""
        return queryset.filter(of_amount(self.value() or ""))


def age_choices() -> list[tuple[str, str]]:
    """Return the ages that one can ask for."""
    named = [(name, f"{'an' if name == 'hour' else 'a'} {name}") for name in AgeFilter.spans]
    return [(f"under-{name}", f"less than {text}") for name, text in named] + [
        (f"over-{name}", f"more than {text}") for name, text in named
    ]


def of_age(chosen: str) -> Q:
    """Return what has an age, by the database's clock; an unknown word filters nothing."""
    side, _, name = chosen.partition("-")
    if name not in AgeFilter.spans or side not in ("under", "over"):
        return Q()
    return Q(**{f"created_at__{'gt' if side == 'under' else 'lte'}": Now() - AgeFilter.spans[name]})


def amount_choices() -> list[tuple[str, str]]:
    """Return the thresholds that one can ask for."""
    return [(str(units), f"{units:,} or more") for units in AMOUNTS]


def of_amount(chosen: str) -> Q:
    """Return what has an amount or more, in whole units of its own currency; an unknown word filters nothing."""
    if chosen not in map(str, AMOUNTS):
        return Q()
    units, odd = int(chosen), odd_currencies()
    hundredths = ~Q(currency__in=[code for codes in odd.values() for code in codes])
    found = hundredths & Q(amount__gte=units * 100)
    for digits, codes in odd.items():
        found |= Q(currency__in=codes, amount__gte=units * 10**digits)
    return found


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
    """By reason: of those that occur in what the list looks through, and the one that the address says."""

    title, parameter_name = "reason", "reason"
    reasons: ClassVar[type[Word]]
    #: States that have an index, and in which a row may be older than the newest.
    lasting: ClassVar[list[str]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the reasons of the newest rows and of those in a lasting state; an index leads to both."""
        if not model_admin.may_view(request):
            return []
        rows = model_admin.get_queryset(request)
        newest = rows.order_by(f"-{model_admin.newest_column}")
        found = {self.used_parameters.get(self.parameter_name)}
        for part in (newest, rows.filter(state__in=self.lasting).order_by()):
            some = part.values("reason")[: BoundedChangeList.LOOK_BACK]
            found.update(some.aggregate(found=ArrayAgg("reason", distinct=True, default=[]))["found"])
        occurring = [reason for reason in self.reasons if reason and str(reason) in found]
        return [(str(reason), REASONS.get(reason, label(reason))) for reason in occurring]


class ExecutionReasonFilter(_ReasonFilter):
    """By reason."""

    reasons = ExecutionReason
    lasting = values(EXECUTION_IN_DOUBT | {ExecutionState.AWAITING_APPROVAL})


class RequestReasonFilter(_ReasonFilter):
    """By reason."""

    reasons = RequestReason
    lasting = values({RequestState.WAITING, RequestState.IN_DOUBT})


class NameFilter(WordFilter):
    """Filters a column by names that the code declares, and by any other that the address says.

    What was recorded under a name outlives the code that declared it: the pages of such rows lead here.
    """

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices, with the one of the address among them."""
        return with_name(self.words(), self.value())


def with_name(declared: Iterable[tuple[str, str]], chosen: str | None) -> list[tuple[str, str]]:
    """Return declared names, and the chosen one if it is not among them; no name holds a NUL."""
    choices = list(declared)
    if not chosen or "\x00" in chosen or chosen in dict(choices):
        return choices
    return [*choices, (chosen, f"{visible(chosen)} (not declared any more)")]


class ExecutionOperationFilter(NameFilter):
    """By operation, of the registered effects."""

    title, parameter_name = "operation", "operation"

    def words(self) -> Iterable[tuple[str, str]]:
        """Return the operations and their earlier names."""
        names = {name for effect in registered() for name in (effect.operation, *effect.aliases)}
        return [(name, name) for name in sorted(names)]


class ProviderFilter(NameFilter):
    """By provider, of the registered effects."""

    title, parameter_name = "provider", "provider"

    def words(self) -> Iterable[tuple[str, str]]:
        """Return the providers."""
        return [(name, name) for name in sorted({effect.provider for effect in registered()})]


class RequestOperationFilter(NameFilter):
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
