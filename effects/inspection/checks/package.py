"""Find another package that is taken for this one."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from django.apps import AppConfig, apps
from django.core import checks

from effects.inspection.checks.messages import APP_LABEL, DISTRIBUTION, make_error, make_warning

__all__ = ["check_package"]


def check_package(**_kwargs: Any) -> list[checks.CheckMessage]:
    """E009: another package is taken for `effects`. W001: another one is on the path behind it."""
    ours = Path(__file__).resolve().parents[2]
    found: list[checks.CheckMessage] = []
    loaded = sys.modules.get("effects")
    if ours not in _places(getattr(loaded, "__path__", ())):
        where = getattr(loaded, "__file__", None) or "nowhere"
        found.append(_foreign(f"`import effects` gives the module at {where}, not {DISTRIBUTION}."))
    found += [
        _foreign(f"The installed app {config.name!r} at {config.path} is not {DISTRIBUTION}.")
        for config in apps.get_app_configs()
        if _claims_our_name(config) and Path(config.path).resolve() != ours
    ]
    found += [
        make_warning(
            1,
            f"There is another module named effects, at {other}.",
            f"Rename or uninstall it: a process's directory decides which one it imports. Ours is {ours}.",
        )
        for other in _others_on_path(ours)
    ]
    return found


def _foreign(message: str) -> checks.Error:
    return make_error(
        9,
        message,
        f"Rename or uninstall the other one, then install {DISTRIBUTION} again. In an app's own effects.py, "
        "write `import effects`, never `from . import effects`.",
    )


def _claims_our_name(config: AppConfig) -> bool:
    return config.name == "effects" or config.label == APP_LABEL


def _places(paths: Iterable[str]) -> set[Path]:
    return {Path(path).resolve() for path in paths}


def _others_on_path(ours: Path) -> list[Path]:
    others: dict[Path, None] = {}
    for entry in sys.path:
        spec = PathFinder.find_spec("effects", [entry])
        # A directory without __init__.py has no origin and never wins over a package.
        if spec is not None and spec.origin is not None and Path(spec.origin).resolve().parent != ours:
            others[Path(spec.origin).resolve()] = None
    return list(others)
