"""The effects of the machine: what the provider attests, how it can be asked, who must agree."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import connection

import effects

if TYPE_CHECKING:
    from tests.machine.world import World

__all__ = ["EFFECTS", "Payload"]

APPROVERS = "effects.approve_execution"


@dataclass(frozen=True)
class Payload:
    """What is sent."""

    amount: int


class Machine(effects.Effect[Payload]):
    """Sends to the provider of the world that runs, and writes the project's rows."""

    provider = "machine/acct"
    rule: ClassVar[effects.ApprovalRule | None] = None
    world: ClassVar[World | None] = None

    def send(self, context: Any, permit: Any) -> Any:
        assert Machine.world is not None
        return Machine.world.receive(self, context, permit, undoes=False)

    def compensate(self, context: Any, permit: Any) -> Any:
        assert Machine.world is not None
        return Machine.world.receive(self, context, permit, undoes=True)

    def describe(self, context: Any) -> effects.Summary:
        price = Machine.world.price if Machine.world and self.rule else 0
        return effects.Summary(f"Send {context.key}", {"price": str(price)}, context.payload.amount, "eur")

    def precondition(self, context: Any) -> effects.Precondition:
        late = Machine.world is not None and Machine.world.not_yet
        return effects.Later(timedelta(seconds=30)) if late else effects.Proceed()

    def approval(self, context: Any) -> effects.ApprovalRule | None:
        return self.rule

    def settled(self, context: Any, outcome: effects.Outcome) -> None:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO machine_row (ref, state) VALUES (%s, %s)", [context.ref, str(outcome.state)])
        if Machine.world is not None and Machine.world.hook_raises:
            raise RuntimeError("the project's own bug")


class Asked(Machine):
    """Can be asked."""

    def verify(self, context: Any) -> Any:
        assert Machine.world is not None
        return Machine.world.provider.look_up(context.provider_key)


@effects.register
class Authoritative(Asked):
    """The look-up reads what the provider acts on; can be undone."""

    operation = "machine.authoritative"
    lookup = effects.Authoritative(quiet=timedelta(seconds=30))
    reversible = True


@effects.register
class Lagging(Asked):
    """The look-up lags."""

    operation = "machine.lagging"
    lookup = effects.Eventual(quiet=timedelta(minutes=5))


@effects.register
class Blind(Machine):
    """The provider cannot be asked and deduplicates nothing."""

    operation = "machine.blind"


@effects.register
class Deduplicated(Machine):
    """The provider cannot be asked; it deduplicates for a day."""

    operation = "machine.deduplicated"
    deduplicates = effects.Deduplication(lifetime=timedelta(hours=24))


@effects.register
class Repeatable(Machine):
    """Twice is as good as once."""

    operation = "machine.repeatable"
    repeatable = True


@effects.register
class Approved(Asked):
    """One other person must agree, to each send."""

    operation = "machine.approved"
    lookup = effects.Authoritative(quiet=timedelta(seconds=30))
    rule = effects.ApprovalRule(approvers=APPROVERS)


@effects.register
class Covered(Asked):
    """Two must agree, once for all sends that are proven absent."""

    operation = "machine.covered"
    lookup = effects.Eventual(quiet=timedelta(minutes=5))
    rule = effects.ApprovalRule(approvers=APPROVERS, quorum=2, covers_retries=True)


@effects.register
class BlindApproved(Machine):
    """One must agree, and nobody can be asked what became of it."""

    operation = "machine.blind_approved"
    rule = effects.ApprovalRule(approvers=APPROVERS, decide_within=timedelta(hours=12), use_within=timedelta(hours=1))


EFFECTS = (Authoritative, Lagging, Blind, Deduplicated, Repeatable, Approved, Covered, BlindApproved)
