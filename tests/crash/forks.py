"""A process with Django ready that forks a child for each piece of work, so that a kill costs no start-up.

One thread, no connection: what a child inherits is code. It speaks lines of JSON on its standard streams. The child
gets `EFFECTS_FAULT`, as any process may, and dies by SIGKILL; it reports on a pipe otherwise.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CHILD_LOCK", "Forks", "Said"]

#: The advisory lock that each connection of a child holds: whoever gets it knows that the children's are gone.
CHILD_LOCK = 5_210_017


@dataclass(frozen=True)
class Said:
    """How a child ended.

    Attributes:
        killed: by SIGKILL.
        status: what it exited with otherwise.
        points: the fault points that it reached, in order; nobody knows of one that was killed.
        fired: its fault was met.
        result: what the work returned.
        error: what it raised.
    """

    killed: bool
    status: int
    points: list[str] = field(default_factory=list)
    fired: bool = False
    result: Any = None
    error: str = ""


class Forks:
    """The process that forks.

    Args:
        environ: its environment: the test database and the provider.
    """

    def __init__(self, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.forks"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **environ, "DJANGO_SETTINGS_MODULE": "tests.crash.settings"},
        )  # fmt: skip

    def begin(self, name: str, arguments: dict[str, Any], fault: str) -> None:
        """Begin a piece of work in a child."""
        self._tell({"work": name, "arguments": arguments, "fault": fault})

    def fileno(self) -> int:
        """Return what is readable when the child has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def end(self) -> Said:
        """Wait until the child has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the forking process has ended"
        return Said(**json.loads(line))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _tell(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()


def main() -> None:
    """Fork a child for each line until there are no more."""
    import django

    django.setup()
    logging.disable(logging.CRITICAL)
    _warm_up()
    gc.collect()
    gc.freeze()
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(json.dumps(_in_child(json.loads(line))).encode() + b"\n")
        sys.stdout.buffer.flush()


def _warm_up() -> None:
    """Import and prepare once what every child needs; leave neither a connection nor a thread."""
    from django.apps import apps
    from django.db import connections, transaction
    from django.test import Client

    from tests.crash import work  # noqa: F401 - the views and effects with it

    with transaction.atomic():
        for model in apps.get_app_config("effects").get_models():
            model._default_manager.select_for_update().first()
    Client(SERVER_NAME="localhost").post("/nowhere/", "{}", "application/json")
    connections.close_all()


def _in_child(order: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            said = _work(**order)
            os.write(writing, json.dumps(said).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == 9
    return {"killed": killed, "status": status, **(json.loads(said) if said else {})}


def _work(work: str, arguments: dict[str, Any], fault: str) -> dict[str, Any]:
    from django.db.backends.signals import connection_created

    from effects.journal import faults
    from tests.crash.work import do

    connection_created.connect(_hold_lock)
    points: list[str] = []
    act, fired = _fault(fault)

    def watch(point: str) -> None:
        points.append(point)
        act(point)

    faults.arm(watch)
    try:
        return {"points": points, "result": do(work, arguments), "fired": fired()}
    except Exception as error:  # noqa: BLE001 - the test judges it
        return {"points": points, "error": f"{type(error).__name__}: {error}", "fired": fired()}


def _hold_lock(connection: Any, **_: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock_shared(%s)", [CHILD_LOCK])


def _fault(fault: str) -> tuple[Callable[[str], None], Callable[[], bool]]:
    """Return what a point does to this process, and whether it has been done.

    `LOSE_REPLY@<point>` loses the answer of the COMMIT that follows, `LOSE_COMMIT@<point>` the COMMIT; what else there
    is comes by the environment.
    """
    from effects.journal import faults

    lost, _, point = fault.rpartition("@")
    if not lost:
        os.environ["EFFECTS_FAULT"] = fault
        return (faults._kill_at(fault) if fault else lambda point: None), lambda: False
    from django.db import connections

    from tests.core.pg_proxy import Fault, PgProxy

    address = connections.settings["default"]
    proxy = PgProxy(address["HOST"], int(address["PORT"] or 5432))
    address.update(HOST="127.0.0.1", PORT=proxy.port, OPTIONS={**address["OPTIONS"], "sslmode": "disable"})
    met: list[str] = []

    def lose(reached: str) -> None:
        if reached == point and not met:
            met.append(reached)
            proxy.on_commit(Fault[lost])

    return lose, lambda: bool(met)


if __name__ == "__main__":
    main()
