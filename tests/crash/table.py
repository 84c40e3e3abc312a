"""The table of `docs/explanation/crash-table.md`, made of cells that were played."""

from __future__ import annotations

from pathlib import Path

from effects.testing.faults import POINTS as KNOWN
from tests.crash.cells import Life, Setting
from tests.crash.plan import PROVIDERS
from tests.crash.tally import WIRE

__all__ = ["PAGE", "POINTS", "heading", "left", "setting_of", "told"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "crash-table.md"
#: The points on the way of a declared view without an approval, in the order in which it reaches them.
POINTS = (
    "opening_a_request.before_commit",
    "opening_a_request.after_commit",
    "handler.started",
    "performing_an_effect.before_commit",
    "performing_an_effect.after_commit",
    "send.before_call",
    "wire.connected",
    "wire.sent",
    "wire.answered",
    "send.replied",
    "hook.before",
    "hook.after",
    "recording_an_outcome.before_commit",
    "recording_an_outcome.after_commit",
    "handler.returned",
    "answering_a_request.before_commit",
    "answering_a_request.after_commit",
)


def setting_of(provider: str) -> Setting:
    """Return what a column is played in."""
    return Setting(provider, asks=False, way="declared")


def heading() -> str:
    """Return the table's first line."""
    return "| " + " | ".join(("killed at", "what is true there", "applied", "left behind", *PROVIDERS)) + " |"


def left(point: str, life: Life) -> list[str]:
    """Return what a row says of the moment of the kill."""
    met = life.met
    states = [f"request {', '.join(met['requests'])}"] if met["requests"] else []
    states += [f"execution {', '.join(met['executions'])}"] if met["executions"] else []
    meaning = {**KNOWN, **WIRE}[point]
    return [f"`{point}`", meaning, "yes" if met["applied"] else "no", "; ".join(states) or "nothing"]


def told(life: Life) -> str:
    """Return what a column says of the end."""
    met, acts = life.met, [act for act in life.acts if act != "resolve_request"]
    if met["executions"] == ["completed"]:
        return "replayed" if met["requests"] == ["answered"] else "answered later"
    if not met["attempts"]:
        return "the retry runs"
    if "order_resend" in acts:
        return "a person orders it again"
    if "resolve" in acts:
        return "a person says so"
    return "sent again, deduplicated" if life.setting.provider == "deduplicates" else (
        "found" if met["applied"] else "not found, sent again"
    )  # fmt: skip
