"""What the demo prints: where it stands while it plays, then a table, the ledgers, and what was counted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from typing_extensions import Self

from . import pace
from .ledgers import Audit, Balance, Counts
from .people import People
from .stage import Telling

__all__ = ["Played", "Progression", "Report"]


@dataclass(frozen=True, slots=True)
class Played:
    """A story that was played.

    Attributes:
        title: The story's.
        telling: What it has to tell.
        seconds: How long it took.
    """

    title: str
    telling: Telling
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether everything came out as it has to."""
        return not self.telling.failures


class Progression:
    """Where the demo stands: a bar on a terminal, else a line for each step, both on stderr.

    Args:
        steps: How many there are.
    """

    def __init__(self, steps: int) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=10),
            TextColumn("{task.elapsed:.0f} s"),
            TextColumn("{task.description}"),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=steps)
        self._step = ""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, step: str) -> None:
        """Say which step begins."""
        self._step = step
        self.note("")

    def note(self, text: str) -> None:
        """Say what is going on in it."""
        self._bar.update(self._task, description=f"[bold]{escape(self._step)}[/]\n{escape(text)}")

    def end(self, result: str) -> None:
        """Say how the step ended."""
        self._bar.advance(self._task)
        if self._bar.disable:
            self._console.print(f"{self._step}: {result}", markup=False, soft_wrap=True)

    def quote(self, logs: Iterable[tuple[str, str]]) -> None:
        """Print the ends of logs, for whoever has to find out what went wrong."""
        for name, text in logs:
            self._console.print(f"--- the log of {name} ends with\n{text}", markup=False, soft_wrap=True)


class Report:
    """The lines on stdout."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)

    def introduce(self) -> None:
        """Say what runs, and what is shorter than in production."""
        self._console.print("[bold]django-effects[/]: seven hard moments, on real components\n")
        self._console.print(
            "A shop that refunds through Stripe: PostgreSQL, Redis, gunicorn with several workers, a Celery worker and "
            "beat are real; Stripe is localstripe, behind a network that loses and delays what it is told to.\n"
        )
        self._console.print(f"[dim]Shorter here than in production: {pace.in_words()}.[/]\n")

    def tell(self, played: Sequence[Played]) -> None:
        """Print the stories as a table, and below it what did not come out right."""
        table = Table(box=box.HORIZONTALS, show_lines=True, header_style="dim", border_style="dim", expand=True)
        table.add_column("", width=1)
        table.add_column("What happened", ratio=1)
        table.add_column("What the client saw", width=21 if self._console.width < 100 else 32)
        table.add_column("At Stripe", width=9)
        table.add_column("In shop", width=8)
        for each in played:
            told = each.telling
            mark = "[green]✓[/]" if each.is_good else "[red]✗[/]"
            story = f"[bold]{escape(each.title)}[/]\n{escape(told.happened)}"
            table.add_row(mark, story, escape("\n".join(told.saw)), told.provider, told.shop)
        self._console.print(table)
        for each in played:
            for failure in each.telling.failures:
                self._console.print(f"[red]✗ {escape(each.title)}:[/] {escape(failure)}")

    def compare(self, found: Balance) -> None:
        """Print the three ledgers side by side, and their difference."""
        self._console.print("\n[bold]The ledgers[/]")
        table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
        for name in ("", "Stripe's own", "our journal", "the shop's rows"):
            table.add_column(name, justify="left" if not name else "right")
        for kind, totals in found.totals.items():
            table.add_row(f"{kind}s", *(f"{number} · {amount / 100:.2f} €" for number, amount in totals.values()))
        self._console.print(Padding(table, (0, 0, 0, 2)))
        for each in found.differences:
            self._console.print(
                f"[red]  ✗ {each.kind} {escape(each.reference) or '?'} of {each.amount / 100:.2f} €: Stripe "
                f"{each.provider}, journal {each.journal}, shop {each.shop}[/]"
            )
        if found.unsettled:
            self._console.print(f"[red]  ✗ executions that are still open: {found.unsettled}[/]")
        if not found.differences:
            self._console.print("  Difference, by reference and amount: [green]none[/]")

    def audit(self, audited: Audit) -> None:
        """Print what the audit found."""
        for each in audited.findings:
            self._console.print(f"[red]  ✗ {escape(each)}[/]")
        looked = ", ".join(f"{number} {kind}" for kind, number in audited.checked.items())
        if not audited.findings:
            self._console.print(f"  manage.py effects_audit, over {looked}: [green]no findings[/]")

    def count(self, counts: Counts) -> None:
        """Print what was counted."""
        self._console.print("\n[bold]Counted[/]")
        same = "all" if counts.replays == counts.replays_identical else str(counts.replays_identical)
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(justify="right")
        table.add_column()
        for number, noun in (
            (counts.operations, "protected requests"),
            (counts.provider_sends, f"sends of {counts.provider_refunds} refunds"),
            (counts.duplicates, "duplicates"),
            (counts.lost, "lost"),
            (counts.replays, f"replays, {same} of them the same bytes as the original"),
            (counts.resolved_by_lookup, "in doubt, cleared by a look-up"),
            (counts.resolved_by_person, "in doubt, resolved by a person"),
            (counts.left_to_a_person, "in doubt still, left to a person"),
            (counts.approvals_spent, "approvals spent"),
        ):
            table.add_row(str(number), noun)
        self._console.print(Padding(table, (0, 0, 0, 2)))

    def conclude(self, seconds: float, *, is_good: bool) -> None:
        """Print the verdict."""
        verdict = (
            "[green]Everything came out as promised[/]" if is_good else "[red]Not everything came out as promised[/]"
        )
        self._console.print(f"\n{verdict}, in {seconds:.0f} s.\n")

    def invite(self, url: str, people: People) -> None:
        """Say where the admin is and who can log in."""
        self._console.print(f"[bold]The admin[/] is at [bold]{url}/admin/effects/execution/needs-a-person/[/]")
        for person in (people.approver, people.colleague):
            self._console.print(f"  {person.name:<6} {person.password}", markup=False)
        self._console.print(
            "  Maria or Omar can approve a refund that waits there, and find out about the payment in doubt.\n"
            "  Ctrl-C ends everything; nothing is left."
        )

    def dump(self, data: dict[str, object]) -> None:
        """Print one line of JSON, the last one."""
        self._console.print(json.dumps(data), markup=False, soft_wrap=True)
