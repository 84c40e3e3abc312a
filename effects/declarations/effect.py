"""`Effect`, the declaration of how one kind of outward call is sent, verified, approved, settled; and its registry."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

from effects.declarations.hints import find_problem
from effects.vocabulary import canonical
from effects.vocabulary.exceptions import EffectDefinitionError, PayloadUnreadableError
from effects.vocabulary.outcomes import Outcome
from effects.vocabulary.types import (
    LONGEST,
    ApprovalRule,
    Authoritative,
    Context,
    Deduplication,
    InDoubt,
    Lookup,
    Permit,
    Precondition,
    Proceed,
    Retry,
    Risk,
    SendResult,
    Summary,
)
from effects.vocabulary.verdicts import Inconclusive, Verdict

__all__ = ["Effect", "get_effect", "register", "registered"]

P = TypeVar("P")
E = TypeVar("E", bound="type[Effect[Any]]")

#: The quiet time where there is no look-up to say one (DESIGN: barrier).
QUIET_WITHOUT_LOOKUP = timedelta(minutes=5)


class Effect(Generic[P]):
    """How one kind of outward call is sent, verified, approved and settled.

    Subclass it with the payload's type, `Effect[RefundPayload]`, a frozen dataclass or `dict`. `operation`, `provider`
    and `send` are required; every other default is the strict one.

    Attributes:
        operation: the name that keys, receipts and permissions use; never reused for something else.
        aliases: earlier names of the operation, the oldest first, so that rows recorded under them are still
            understood. Keys are derived from the oldest one: a renamed operation meets what it recorded before.
        provider: which account at which provider, as in `stripe/acct_main`.
        request_timeout: how long one request to the provider may take, from permit to the last byte.
        lookup: how `verify` can be believed, or None where the provider cannot be asked.
        deduplicates: what the provider attests about its idempotency keys, or None.
        repeatable: sending twice changes nothing more.
        reversible: it can be undone (`compensate`).
        risk: project rules tighten by it.
        in_doubt: what becomes of an execution that no look-up decides; `ABANDON` needs `Risk.LOW`.
        retry: how refusals that prove "not applied, try later" are repeated.
        payload_version: raised when the payload's shape changes; `upgrade` reads the older ones.
        output_type: a dataclass that stored outputs are read as; None: as they were stored, in plain JSON.
        output_version: raised when the output's shape changes; `upgrade_output` reads the older ones.
        safety_version: raised when it is unsafe for new code to touch unsettled rows of older code.
        proposable_by: the permission (of several, joined by " & ", all) of those who may propose it through the API
            of `effects.http.api`, where it is never sent without an approval; empty: nobody may.
    """

    operation: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    provider: ClassVar[str] = ""
    request_timeout: ClassVar[timedelta] = timedelta(seconds=10)
    lookup: ClassVar[Lookup | None] = None
    deduplicates: ClassVar[Deduplication | None] = None
    repeatable: ClassVar[bool] = False
    reversible: ClassVar[bool] = False
    risk: ClassVar[Risk] = Risk.HIGH
    in_doubt: ClassVar[InDoubt] = InDoubt.ESCALATE
    retry: ClassVar[Retry] = Retry()
    payload_version: ClassVar[int] = 1
    output_type: ClassVar[type[Any] | None] = None
    output_version: ClassVar[int] = 1
    safety_version: ClassVar[int] = 1
    proposable_by: ClassVar[str] = ""
    payload_type: ClassVar[type[Any]] = dict

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in getattr(cls, "__orig_bases__", ()):
            if isinstance(get_origin(base), type) and issubclass(get_origin(base), Effect):
                (argument,) = get_args(base)
                if not isinstance(argument, TypeVar):
                    cls.payload_type = get_origin(argument) or argument

    def send(self, context: Context[P], permit: Permit) -> SendResult:
        """Make the one request to the provider that `permit` licenses, under `permit.provider_key`.

        Returns:
            `Applied` when the answer is itself the proof, `Submitted` when the provider only took the order,
            `Partial` for items.

        Raises:
            ProvenNotApplied: one of its subclasses in `effects.vocabulary.failures`, when the answer proves that
                nothing was applied. Whatever else is raised is doubt.
        """
        raise NotImplementedError

    def verify(self, context: Context[P]) -> Verdict:
        """Look up at the provider what became of it. Runs outside any transaction, may be repeated, changes nothing."""
        return Inconclusive("this effect has no look-up")

    def settled(self, context: Context[P], outcome: Outcome) -> None:
        """Write YOUR rows, in the transaction that settles the execution, whoever settles it.

        Runs once per settling, under the execution's lock. No provider calls here; `perform_later` is welcome. If it
        raises, the outcome is committed all the same and the hook stays due.
        """

    def approval(self, context: Context[P]) -> ApprovalRule | None:
        """Return who must agree before the send, or None."""
        return None

    def describe(self, context: Context[P]) -> Summary:
        """Return what people are shown before they decide; part of what they approve."""
        return Summary(title=f"{self.operation} {context.key}")

    def precondition(self, context: Context[P]) -> Precondition:
        """Return whether it may be sent now. Runs outside any transaction, just before the permit."""
        return Proceed()

    def compensate(self, context: Context[P], permit: Permit) -> SendResult:
        """Undo a completed execution; like `send`."""
        raise NotImplementedError

    def refuse_proposal(self, payload: P, *, user: Any, tenant: str) -> str:
        """Return in words why `user` may not propose exactly this; empty if they may. May read rows, writes none."""
        return ""

    def provider_url(self, reference: str, *, tenant: str) -> str:
        """Return where people see at the provider what a reference names, for the console's link; empty: nowhere.

        Calls nobody. What is no http or https address is not shown.
        """
        return ""

    def upgrade(self, payload: Any, version: int) -> Any:
        """Return a payload that was recorded under `version` in the present shape."""
        return payload

    def upgrade_output(self, output: Any, version: int) -> Any:
        """Return an output that was stored under `output_version` `version` in the present shape."""
        return output

    # -- what the runtime asks of a declaration ------------------------------------------------------------------

    def stays_here(self) -> bool:
        """Return whether `send` reaches nobody outside of this process: asked in tests, which then may call it."""
        return False

    @classmethod
    def can_be_looked_up(cls) -> bool:
        """Return whether the class has a look-up. A base whose `verify` needs more of its subclasses says when."""
        return cls.verify is not Effect.verify

    @property
    def keyed_as(self) -> str:
        """The name that bindings and provider keys are derived from; no renaming changes it."""
        return (*self.aliases, self.operation)[0]

    @property
    def quiet(self) -> timedelta:
        """How long after its end a request may still land."""
        return self.lookup.quiet if self.lookup else QUIET_WITHOUT_LOOKUP

    @property
    def has_hook(self) -> bool:
        """Whether the project writes rows of its own when an execution settles."""
        return type(self).settled is not Effect.settled

    @property
    def has_precondition(self) -> bool:
        """Whether the project is asked before each send."""
        return type(self).precondition is not Effect.precondition

    def read(self, data: Any) -> P:
        """Return plain data as the declared type.

        Raises:
            PayloadError: it does not fit.
        """
        if self.payload_type is dict or isinstance(data, self.payload_type):
            return data  # type: ignore[no-any-return]
        return canonical.hydrate(self.payload_type, data)  # type: ignore[no-any-return]

    def load(self, text: str, version: int) -> P:
        """Return the recorded payload as the declared type, upgraded from `version`.

        Raises:
            PayloadUnreadableError: it cannot be read, or retention dropped it.
        """
        if not text:
            raise PayloadUnreadableError(f"The payload of this {self.operation} was dropped by retention.")
        if version > self.payload_version:
            # a deploy was taken back: what newer code meant by it, this code can only guess
            raise PayloadUnreadableError(
                f"The payload of this {self.operation} was recorded by newer code, under payload_version {version}; "
                f"this code reads {self.payload_version}. Run the newer code until it is settled."
            )
        try:
            data = canonical.load(text)
            return self.read(data if version == self.payload_version else self.upgrade(data, version))
        except Exception as error:  # `upgrade` is the project's code
            raise PayloadUnreadableError(
                f"The payload of this {self.operation}, recorded under payload_version {version}, cannot be read "
                f"under {self.payload_version}: {canonical.clean_error(error, 300)}. Mend upgrade() or the payload's "
                "class."
            ) from error

    def load_output(self, text: str, version: int) -> Any:
        """Return a stored output as `output_type`, upgraded from `version`; raises what the project's code raises."""
        output = canonical.load(text, floats=True)
        if version > self.output_version:
            raise ValueError(f"newer code stored it, this code reads output_version {self.output_version}")
        if version != self.output_version:
            output = self.upgrade_output(output, version)
        if self.output_type is None or output is None or isinstance(output, self.output_type):
            return output
        return canonical.hydrate(self.output_type, output)

    def contract(self) -> dict[str, Any]:
        """Return the safety-relevant settings in the form that is frozen on each row."""
        return {
            "provider": self.provider,
            "request_timeout": self.request_timeout.total_seconds(),
            "lookup": type(self.lookup).__name__.lower() if self.lookup else None,
            "authoritative": isinstance(self.lookup, Authoritative),
            "quiet": self.quiet.total_seconds(),
            "deduplicated_for": self.deduplicates.lifetime.total_seconds() if self.deduplicates else None,
            "repeatable": self.repeatable,
            "reversible": self.reversible,
            "risk": str(self.risk),
            "in_doubt": str(self.in_doubt),
            "retry": {
                "attempts": self.retry.attempts,
                "first": self.retry.first.total_seconds(),
                "ceiling": self.retry.ceiling.total_seconds(),
            },
        }


_registry: dict[str, Effect[Any]] = {}


def register(cls: E) -> E:
    """Register an effect class under its operation and aliases; a class decorator.

    Raises:
        EffectDefinitionError: the declaration cannot work; the message says what to add.
    """
    _check(cls)
    effect = cls()
    for name in (cls.operation, *cls.aliases):
        known = _registry.get(name)
        if known is not None and _path(type(known)) != _path(cls):
            raise EffectDefinitionError(
                f"{_path(cls)} and {_path(type(known))} both name the operation {name!r}; operations are unique"
            )
    for name in (cls.operation, *cls.aliases):
        _registry[name] = effect
    return cls


def registered() -> Iterator[Effect[Any]]:
    """Iterate over the registered effects, each once."""
    yield from dict.fromkeys(_registry.values())


def get_effect(operation: str | type[Effect[Any]]) -> Effect[Any]:
    """Return the registered effect of an operation or class.

    Raises:
        EffectDefinitionError: it is not registered.
    """
    if not isinstance(operation, str | type):
        raise EffectDefinitionError(f"an effect is named by its class or its operation, not by {operation!r:.80}")
    name = operation if isinstance(operation, str) else str(getattr(operation, "operation", ""))
    effect = _registry.get(name)
    if effect is None or (not isinstance(operation, str) and type(effect) is not operation):
        shown = name if isinstance(operation, str) else _path(operation)
        raise EffectDefinitionError(
            f"{shown} is not a registered effect: put @effects.register on the class, in <app>/effects.py of an "
            "installed app"
        )
    return effect


def _path(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


#: Attribute of a declaration → its types, and what to write. Booleans, which are numbers to Python, are apart.
_TYPES: dict[str, tuple[Any, str]] = {
    "operation": (str, "'payments.refund'"),
    "aliases": (tuple | list, "('payments.pay_back',)"),
    "provider": (str, "'stripe/acct_main'"),
    "request_timeout": (timedelta, "timedelta(seconds=10)"),
    "lookup": (Lookup | None, "effects.Eventual(), effects.Authoritative() or None"),
    "deduplicates": (Deduplication | None, "effects.Deduplication(lifetime=timedelta(hours=24)) or None"),
    "risk": (Risk, "effects.Risk.HIGH or effects.Risk.LOW"),
    "in_doubt": (InDoubt, "effects.InDoubt.ESCALATE or effects.InDoubt.ABANDON"),
    "retry": (Retry, "effects.Retry(attempts=5)"),
    "payload_version": (int, "1"),
    "output_version": (int, "1"),
    "safety_version": (int, "1"),
    "proposable_by": (str, "'payments.propose_refund'"),
}
_HOOKS = (
    "send", "verify", "settled", "approval", "describe", "precondition", "compensate", "upgrade", "upgrade_output",
)  # fmt: skip


def _check_kinds(cls: type[Effect[Any]]) -> None:
    for name, (types, example) in _TYPES.items():
        value = getattr(cls, name)
        if not isinstance(value, types) or isinstance(value, bool):
            raise EffectDefinitionError(f"{_path(cls)}: {name} = {value!r:.80}; write {name} = {example}")
    for name in ("repeatable", "reversible"):
        if not isinstance(getattr(cls, name), bool):
            raise EffectDefinitionError(f"{_path(cls)}: {name} is True or False, not {getattr(cls, name)!r:.80}")
    for name in _HOOKS:
        if inspect.iscoroutinefunction(getattr(cls, name)):
            raise EffectDefinitionError(f"{_path(cls)}: workers call {name}, too: make it a plain def, not async")


def _check(cls: type[Effect[Any]]) -> None:
    def need(condition: bool, what: str) -> None:
        if not condition:
            raise EffectDefinitionError(f"{_path(cls)}: {what}")

    need(inspect.isclass(cls) and issubclass(cls, Effect), "@effects.register goes on a subclass of effects.Effect")
    _check_kinds(cls)
    need(bool(cls.operation), "name it: operation = 'payments.refund'")
    need(bool(cls.provider), "say who is called: provider = 'stripe/acct_main'")
    need(cls.send is not Effect.send, "define send(self, context, permit)")
    need(timedelta(0) < cls.request_timeout <= LONGEST, "request_timeout is longer than zero, and at most 100 years")
    verifies = cls.can_be_looked_up()
    need(
        verifies or cls.lookup is None,
        "lookup= promises a look-up: define verify(self, context), or set lookup = None",
    )
    need(
        not verifies or cls.lookup is not None,
        "verify() is defined: say how far to believe it, lookup = effects.Eventual() or effects.Authoritative()",
    )
    need(
        cls.in_doubt is not InDoubt.ABANDON or cls.risk is Risk.LOW,
        "in_doubt = InDoubt.ABANDON gives up without a person, which only Risk.LOW may do",
    )
    need(
        not cls.proposable_by or all("." in part for part in cls.proposable_by.split("&")),
        "proposable_by = 'payments.propose_refund' is the permission of those who may propose it",
    )
    need(
        not cls.proposable_by or cls.payload_type is not dict,
        "proposable_by lets clients write the payload: declare what may be in it, as a frozen dataclass",
    )
    need(
        not (problem := find_problem(cls.payload_type)),
        f"its payload {cls.payload_type.__name__} would not come back from the journal: {problem}",
    )
    need(
        cls.output_type is None or not (problem := find_problem(cls.output_type, floats=True)),
        f"output_type would not come back from the journal: {problem}",
    )
    need(
        not cls.reversible or cls.compensate is not Effect.compensate,
        "reversible = True promises an undoing: define compensate(self, context, permit)",
    )
