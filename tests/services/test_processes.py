"""Child processes are ready when handed out and gone with their parent."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from project.services import postgres, redis, stripe
from project.services.processes import Processes, Service, ServiceError, free_port, port_is_open

ROOT = Path(__file__).resolve().parent.parent.parent
# A program with a child that has a child, which says where its directory is and then waits.
PROGRAM = """
import sys, time
from project.services.processes import Processes
with Processes() as processes:
    script = "import subprocess, sys, time; "
    script += "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    script += "print('started', flush=True); time.sleep(600)"
    child = processes.start("child", [sys.executable, "-c", script])
    child.wait_until(lambda: child.logged("started"))
    print(child.pid, processes.logs, flush=True)
    time.sleep(600)
"""


def alive(group: int) -> list[str]:
    """Return the processes of a group that are more than an entry in a table."""
    listing = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return [state for pgid, state in rows if pgid == str(group) and not state.startswith("Z")]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_parent_is_ended(number: signal.Signals) -> None:
    """Whatever ends the parent ends its children and their children, and removes its directories."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    ) as parent:
        assert parent.stdout is not None
        pid, directory = parent.stdout.readline().split()
        assert len(alive(int(pid))) == 2
        parent.send_signal(number)
        assert parent.wait(30) != 0
        with Processes() as processes:
            # Something that runs while we wait for a condition that its end would break.
            clock = processes.start("clock", [sys.executable, "-c", "import time; time.sleep(600)"])
            clock.wait_until(lambda: not alive(int(pid)) and not Path(directory).exists(), within=20)


def test_stopping_twice_is_stopping_once(tmp_path: Path) -> None:
    """A second stop does nothing, and what was stopped can be started again."""
    processes = Processes()
    for _ in range(2):
        child = processes.start("child", [sys.executable, "-c", "import time; time.sleep(600)"])
        processes.stop()
        processes.stop()
        assert not child.running


def test_a_fork_does_not_stop_its_parents_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork of the program leaves the children alone when it ends."""
    with Processes() as processes:
        child = processes.start("child", [sys.executable, "-c", "import time; time.sleep(600)"])
        with monkeypatch.context() as fork:
            fork.setattr("os.getpid", lambda: 0)
            processes.stop()
        assert child.running


def test_a_child_that_ends_at_once_is_an_error_with_its_log() -> None:
    """What the child said is in the message."""
    script = "import sys; print('no such luck'); sys.exit(3)"
    with Processes() as processes, pytest.raises(ServiceError, match=r"(?s)code 3.*no such luck"):
        processes.start("child", [sys.executable, "-c", script], ready=lambda: False)


def test_a_program_that_does_not_exist_is_an_error() -> None:
    """The message names what cannot be started."""
    with Processes() as processes, pytest.raises(ServiceError, match="child cannot be started"):
        processes.start("child", ["/nonexistent/program"])


def test_a_taken_port_is_tried_again_and_then_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that somebody took meanwhile costs another try; too many of them are said."""
    with socket.socket() as taken, Processes() as processes:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ports = iter([port, free_port()])
        monkeypatch.setattr("project.services.processes.free_port", lambda: next(ports))
        assert redis.start(processes, environ={}).url != f"redis://127.0.0.1:{port}/0"
        monkeypatch.setattr("project.services.processes.free_port", lambda: port)
        with pytest.raises(ServiceError, match="found no free port in 3 tries"):
            redis.start(processes, environ={})


def test_postgres_starts_and_leaves_nothing() -> None:
    """Two clusters at once keep commits synchronous, and are gone with their directories when stopped."""
    with Processes() as processes:
        first, second = (postgres.start(processes, environ={}) for _ in range(2))
        with psycopg.connect(first.url) as connection:
            for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                assert connection.execute(f"SHOW {setting}").fetchone() == ("on",)
        for service in (first, second):
            assert service.process is not None
            assert service.directory is not None
            assert service.directory.exists()
            service.stop()
            assert not alive(service.process.pid)
            assert not service.directory.exists()


def test_a_scratch_database_is_dropped() -> None:
    """It is beside the one whose URL was given, and gone afterwards, in use or not."""
    server = os.environ["DATABASE_URL"]
    with postgres.scratch_database(server) as url:
        assert url != server
        held = psycopg.connect(url)
        assert held.execute("SELECT current_database()").fetchone() == (url.rsplit("/", 1)[-1],)
    with pytest.raises(psycopg.OperationalError):
        held.execute("SELECT 1")
    held.close()
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://localhost/shop", "works on PostgreSQL alone"),
        ("postgresql://127.0.0.1:1/effects", "no PostgreSQL answers there"),
    ],
)
def test_a_useless_database_url_is_refused(url: str, message: str) -> None:
    """One message says what is wrong with it."""
    with Processes() as processes, pytest.raises(ServiceError, match=message):
        postgres.start(processes, environ={"DATABASE_URL": url})


def test_a_database_that_is_there_is_used_and_not_stopped() -> None:
    """`DATABASE_URL` comes before a server of our own."""
    url = os.environ["DATABASE_URL"]
    with Processes() as processes:
        service = postgres.start(processes, environ={"DATABASE_URL": url})
        assert (service.url, service.external) == (url, True)
        service.stop()
    psycopg.connect(url).close()


def test_an_old_postgres_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version before the oldest one that works is named."""
    monkeypatch.setattr(postgres, "OLDEST", 1000)
    with Processes() as processes, pytest.raises(ServiceError, match="too old"):
        postgres.start(processes, environ={"DATABASE_URL": os.environ["DATABASE_URL"]})


def test_no_wheel_for_the_platform_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wheel the message asks for `DATABASE_URL`."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with Processes() as processes, pytest.raises(ServiceError, match="Set DATABASE_URL to a PostgreSQL ≥ 14"):
        postgres.start(processes, environ={})


def test_redis_and_localstripe_start_and_leave_nothing() -> None:
    """Each answers when it is handed out and is gone when stopped."""
    with Processes() as processes:
        services: list[Service] = [redis.start(processes, environ={}), stripe.start(processes)]
        ports = [int(service.url.split(":")[2].split("/")[0]) for service in services]
        assert all(map(port_is_open, ports))
        for service in services:
            assert service.process is not None
            service.stop()
            assert not alive(service.process.pid)
        assert not any(map(port_is_open, ports))


def test_no_redis_names_three_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL, the PATH and the Pythons with a wheel are in the message."""
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with Processes() as processes, pytest.raises(ServiceError, match=r"REDIS_URL.*PATH.*Python"):
        redis.start(processes, environ={})


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "nonsense"])
def test_a_useless_redis_url_is_refused(url: str) -> None:
    """One message says that nothing answers there."""
    with Processes() as processes, pytest.raises(ServiceError, match="no Redis answers there"):
        redis.start(processes, environ={"REDIS_URL": url})
