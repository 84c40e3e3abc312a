"""`manage.py demo`, as a person runs it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
#: Far more than it takes; a machine that runs the rest of the suite beside it is slow.
TIMEOUT = 300
#: What the surroundings of the suite would say to it, and a person's do not.
OF_THE_SUITE = ("DJANGO_SETTINGS_MODULE", "DATABASE_URL", "REDIS_URL")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A directory for temporary files that every account can reach, as PostgreSQL's has to."""
    with tempfile.TemporaryDirectory(prefix="demo-test-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def environment(**more: str) -> dict[str, str]:
    """Return an environment with no service and no settings but those given."""
    kept = {name: value for name, value in os.environ.items() if name not in OF_THE_SUITE}
    return {**kept, "COLUMNS": "100", **more}


@contextmanager
def running(*options: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """Run the demo; kill it if the test ends before it does."""
    command = [sys.executable, "manage.py", "demo", *options]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        try:
            yield demo
        finally:
            demo.kill()


def descendants(pid: int) -> set[tuple[int, str]]:
    """Return the processes that a process started, and those that they started: ids and start times."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid=,lstart="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listing.splitlines()]
    found, parents = set(), {str(pid)}
    while parents:
        children = [(child, started) for child, parent, started in rows if parent in parents]
        found |= {(int(child), started) for child, started in children}
        parents = {child for child, _ in children}
    return found


def alive(processes: set[tuple[int, str]]) -> set[tuple[int, str]]:
    """Return those of the processes that still run."""
    listing = subprocess.run(["ps", "-eo", "pid=,stat=,lstart="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listing.splitlines()]
    return processes & {(int(pid), started) for pid, state, started in rows if not state.startswith("Z")}


def test_the_demo_keeps_its_promises_and_leaves_nothing(temporary: Path) -> None:
    """With no service running, the seven stories come out as promised, the ledgers agree, the audit finds nothing."""
    started: set[tuple[int, str]] = set()
    with running("--json", TMPDIR=str(temporary)) as demo:
        assert demo.stderr is not None
        assert demo.stdout is not None
        steps = []
        for line in demo.stderr:
            steps.append(line)
            started |= descendants(demo.pid)
        printed = demo.stdout.read()
        assert demo.wait(TIMEOUT) == 0, "".join([*steps, printed])
    counted = json.loads(printed.splitlines()[-1])
    assert counted["ok"] is True
    assert len(counted["stories"]) == 7
    assert counted["duplicates"] == counted["lost"] == 0
    assert counted["provider_refunds"] == counted["shop_refunds"] == 5
    assert counted["provider_sends"] == 6, "one was lost on its way, and sent again"
    assert counted["operations"] == 18, "6 orders, 5 of them paid for, 1 killed while paying, 5 refunds, 1 payout"
    assert counted["replays"] == counted["replays_identical"] >= 20
    assert counted["resolved_by_lookup"] == 3
    assert counted["resolved_by_person"] == 1
    assert counted["approvals_spent"] == 2
    assert counted["left_to_a_person"] == 1
    assert counted["audit_findings"] == []
    assert counted["audited"]["requests"] == counted["operations"]
    assert all(counted["audited"][kind] for kind in ("executions", "receipts", "attempts", "approvals"))
    assert len(started) > 10
    assert alive(started) == set()
    assert list(temporary.iterdir()) == []


def test_an_interrupt_leaves_nothing(temporary: Path) -> None:
    """Ctrl-C in the middle of a story ends everything that was started, and says so in one line."""
    with running(TMPDIR=str(temporary), DATABASE_URL=os.environ["DATABASE_URL"]) as demo:
        assert demo.stderr is not None
        assert "ready" in demo.stderr.readline()
        started = descendants(demo.pid)
        demo.send_signal(signal.SIGINT)
        said = demo.stderr.read()
        assert demo.wait(TIMEOUT) == 130
    assert "Stopped." in said
    assert "Traceback" not in said
    assert len(started) > 5
    assert alive(started) == set()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"DATABASE_URL": "mysql://root@localhost/shop"}, "works on PostgreSQL alone"),
        ({"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/shop"}, "no PostgreSQL answers"),
        ({"REDIS_URL": "redis://127.0.0.1:1/0"}, "no Redis answers"),
    ],
)
def test_a_service_that_is_not_there_is_one_message(more: dict[str, str], says: str, temporary: Path) -> None:
    """What is missing is said in one message, without a traceback, and nothing is left."""
    settings = {"DATABASE_URL": os.environ["DATABASE_URL"], "TMPDIR": str(temporary), **more}
    with running(**settings) as demo:
        _, said = demo.communicate(timeout=TIMEOUT)
    assert demo.returncode == 1
    assert says in said
    assert "Traceback" not in said
    assert list(temporary.iterdir()) == []


def test_a_port_that_is_taken_is_one_message() -> None:
    """A port that somebody else listens on is refused before anything is started."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with running("--port", str(listener.getsockname()[1])) as demo:
            _, said = demo.communicate(timeout=TIMEOUT)
    assert demo.returncode == 1
    assert "is taken: choose another one with --port" in said
    assert "Traceback" not in said
