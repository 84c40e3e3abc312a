"""Items that do not say of each part, once, whether it was applied."""

from __future__ import annotations

from typing import Any

import effects

__all__ = ["DOUBTFUL_ITEMS", "Wavering"]


class Wavering(effects.Item):
    """Says something else each time that it is asked."""

    asked = 0

    @property  # type: ignore[misc]
    def applied(self) -> Any:
        """True the first time."""
        type(self).asked += 1
        return type(self).asked == 1

    @applied.setter
    def applied(self, value: Any) -> None:
        type(self).asked = 0


class Raising(effects.Item):
    """Raises when it is asked."""

    def __getattribute__(self, name: str) -> Any:
        if name == "applied":
            raise RuntimeError("no")
        return super().__getattribute__(name)


APPLIED = effects.Item("a", True)
ODD: Any = effects.Item

#: By name, for the ids of parametrized tests.
DOUBTFUL_ITEMS: tuple[Any, ...] = (
    [APPLIED, ODD("b", "false")], [ODD("b", "")], [ODD("b", 1), APPLIED], [ODD("b", 0)], [ODD("b", None)],
    [ODD("b", [])], [ODD("b", object())], [APPLIED, effects.Item("a", False)], [APPLIED, APPLIED],
    [effects.Item("a", False), effects.Item("a", False)], [ODD(1, True), effects.Item("1", False)],
    [effects.Item("a\x00", True), effects.Item("a", False)], [APPLIED, None], [APPLIED, {"key": "b", "applied": True}],
    {"a": APPLIED}, {APPLIED}, Raising("a", True), [Raising("a", True)],
)  # fmt: skip
