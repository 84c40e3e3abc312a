"""Imports once what no mutation changes, then runs pytest in a fork for each line of arguments that comes in.

Started by `lane.py` in a copy of the tree. Plugins of pytest are left to the forks: they must be imported by pytest.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path


def main() -> None:
    """Answer each order with its fork's exit code; a negative one is a signal: SIGALRM, if it took too long."""
    sys.path[0] = str(Path.cwd())
    _import_others()
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(order)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _import_others() -> None:
    import asyncio  # noqa: F401

    import celery  # noqa: F401
    import django.contrib.postgres.fields
    import django.core.handlers.wsgi
    import django.db.backends.postgresql.base
    import django.db.migrations.autodetector
    import django.forms
    import django.test  # noqa: F401
    import psycopg  # noqa: F401
    import pytest  # noqa: F401
    import requests  # noqa: F401

    # not stripe: it imports anyio, which is a plugin of pytest's, too


def _run(order: dict[str, object]) -> None:
    import pytest

    output = os.open(str(order["output"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.alarm(int(str(order["patience"])))
    code = 3  # what pytest calls an internal error
    try:
        code = int(pytest.main([str(argument) for argument in order["arguments"]]))  # type: ignore[attr-defined]
    except BaseException:  # noqa: BLE001 - what pytest itself stumbles over is told in its output, too
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
