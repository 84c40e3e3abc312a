"""Follow one page in the project of the present directory, as `steps.json` says; run by `blocks.run_blocks`."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import django


def main() -> None:
    """Set Django up, and run the steps in order."""
    plan = json.loads(Path("steps.json").read_text(encoding="utf-8"))
    django.setup()
    if plan["prepare"]:
        prepare()
    names: dict[str, Any] = {"__name__": "__main__"}
    for step in plan["steps"]:
        run(plan["page"], step, names)


def prepare() -> None:
    """Make the migrations of the page's app, the tables, and the people of the tutorial."""
    from django.core.management import call_command

    call_command("makemigrations", "shop", verbosity=0)
    call_command("migrate", verbosity=0)
    from django.contrib.auth.models import User

    User.objects.create_user("carol", password="carol-secret")
    User.objects.create_superuser("anna", password="anna-secret")


def run(page: str, step: dict[str, Any], names: dict[str, Any]) -> None:
    """Run one step; its line numbers are the page's."""
    from tests.docs.console import run_console

    kind, text, line = step["kind"], step["text"], step["line"]
    try:
        if kind == "console":
            run_console(text)
        elif kind in {"python", "run", "norun"}:
            code = compile("\n" * (line - 1) + text, page, "exec")
            if kind != "norun":
                exec(code, names)
    except BaseException:
        print(f"{page}:{line}: this block does not do what the page says", file=sys.stderr)
        raise


if __name__ == "__main__":
    # a program's own directory comes first on the path, and this one's neighbours are no modules of the project
    sys.path.remove(str(Path(__file__).parent))
    warnings.simplefilter("error")
    main()
