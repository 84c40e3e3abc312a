"""Child processes that are ready when they are handed out, and gone when their parent is."""

import atexit
import contextlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from urllib.parse import urlsplit

from typing_extensions import Self

from . import watchdog
from .accounts import Account, temporary_root

PORT_TRIES = 3


class ServiceError(RuntimeError):
    """A service is not there; the message says what to do about it."""


class Process:
    """One child process, the leader of a group of its own.

    Attributes:
        name: What people call it.
        log: The file that has its output.
    """

    def __init__(self, name: str, popen: "subprocess.Popen[bytes]", log: Path, polite: int, grace: float) -> None:
        self.name = name
        self.log = log
        self._popen = popen
        self._polite = polite
        self._grace = grace

    @property
    def pid(self) -> int:
        """The id of the process, which is the id of its group too."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def tail(self, lines: int = 15) -> str:
        """Return the end of its log."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def logged(self, text: str) -> bool:
        """Tell whether its log has a text by now: a condition for `wait_until`."""
        return text in self.log.read_text(errors="replace")

    def wait_until(self, ready: Callable[[], bool], *, within: float = 30.0) -> None:
        """Wait until a condition holds.

        Raises:
            ServiceError: It ended, or the condition does not hold after that many seconds.
        """
        deadline = time.monotonic() + within
        while True:
            if not self.running:
                raise ServiceError(f"{self.name} ended with code {self._popen.returncode}. Its log:\n{self.tail()}")
            if ready():
                return
            if time.monotonic() > deadline:
                raise ServiceError(f"{self.name} is not ready after {within:g} s. Its log:\n{self.tail()}")
            time.sleep(0.02)

    def send_signal(self, number: int) -> None:
        """Signal the process alone, not its group."""
        self._popen.send_signal(number)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its code."""
        return self._popen.wait(timeout)

    def kill(self) -> None:
        """Kill it and its whole group at once, as a power cut would."""
        self._signal_group(signal.SIGKILL)
        self._popen.wait()

    def stop(self) -> None:
        """End it and its group: politely, and after the grace with SIGKILL."""
        if self.running:
            self._signal_group(self._polite)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(self._grace)
        self.kill()

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


class Processes:
    """The child processes and temporary directories of one program.

    A context manager: leaving it, the end of the interpreter, Ctrl-C and SIGTERM stop the children in reverse
    order and remove the directories. A watchdog does the same when the program is killed outright.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._children: list[Process] = []
        self._directories: list[Path] = []
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._logs: Path | None = None
        self._handlers: dict[int, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is signal.SIG_DFL:
                    self._handlers[number] = signal.signal(number, _leave)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            for number in self._handlers:
                signal.signal(number, signal.SIG_DFL)
            self._handlers.clear()

    @property
    def logs(self) -> Path:
        """The directory that has the logs of all children."""
        if self._logs is None:
            self._logs = self.make_directory("effects-logs-")
        return self._logs

    def make_directory(self, prefix: str, owner: Account | None = None) -> Path:
        """Make a temporary directory that is removed with everything else.

        Args:
            prefix: What its name begins with.
            owner: The account that can use it, ours when not given.
        """
        root = temporary_root(owner)
        if root is None and owner is not None:
            raise ServiceError(f"no temporary directory can be reached by {owner.name}: set TMPDIR to one that can")
        with self._lock:
            path = Path(tempfile.mkdtemp(prefix=prefix, dir=root))
            self._directories.append(path)
            self._tell(f">{path}")
        if owner is not None:
            os.chown(path, owner.uid, owner.gid)
        return path

    def remove_directory(self, path: Path) -> None:
        """Remove one of the directories before the others."""
        shutil.rmtree(path, ignore_errors=True)
        with self._lock, contextlib.suppress(ValueError):
            self._directories.remove(path)

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        account: Account | None = None,
        polite: int = signal.SIGTERM,
        grace: float = 10.0,
        ready: Callable[[], bool] | None = None,
        within: float = 30.0,
    ) -> Process:
        """Start a child process in a group of its own and wait until it is ready.

        Args:
            name: What people call it; its log is `NAME.log`, or `NAME-2.log` for the second of that name.
            argv: The program and its arguments.
            env: Variables on top of our own environment.
            cwd: Where it runs; here when not given.
            account: The account it runs under, for root only.
            polite: The signal that asks it to end.
            grace: Seconds from that signal to SIGKILL.
            ready: Called until it returns true.
            within: Seconds until `ready` has to be true.

        Raises:
            ServiceError: The program is not there, ended at once, or was not ready in time. It is stopped
            then.
        """
        log = self._log_of(name)
        with self._lock, log.open("wb") as output:
            try:
                popen = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(env or {})},
                    cwd=cwd,
                    start_new_session=True,
                    user=account.uid if account else None,
                    group=account.gid if account else None,
                    extra_groups=[] if account else None,
                )
            except OSError as error:
                raise ServiceError(f"{name} cannot be started: {error}") from error
            child = Process(name, popen, log, polite, grace)
            self._children.append(child)
            self._tell(f"+{child.pid} {int(polite)}")
        if ready is not None:
            try:
                child.wait_until(ready, within=within)
            except BaseException:
                self.stop_one(child)
                raise
        return child

    def start_on_port(
        self,
        name: str,
        argv: Callable[[int], Sequence[str]],
        *,
        ready: Callable[[int], bool] | None = None,
        cwd: Path | None = None,
        account: Account | None = None,
        env: Mapping[str, str] | None = None,
        polite: int = signal.SIGTERM,
        within: float = 30.0,
    ) -> tuple[Process, int]:
        """Start a child process on a free port; return both.

        A port can be taken by somebody else before the child binds it: that is tried again with another one.
        """
        check = ready or port_is_open
        failure: ServiceError | None = None
        for _ in range(PORT_TRIES):
            port = free_port()
            try:
                child = self.start(
                    name,
                    argv(port),
                    cwd=cwd,
                    account=account,
                    env=env,
                    polite=polite,
                    ready=lambda port=port: check(port),  # type: ignore[misc]
                    within=within,
                )
            except ServiceError as error:
                failure = error
                if "in use" not in str(error):
                    raise
            else:
                return child, port
        raise ServiceError(f"{name} found no free port in {PORT_TRIES} tries. {failure}")

    def stop_one(self, child: Process) -> None:
        """Stop one child before the others."""
        child.stop()
        with self._lock:
            if child in self._children:
                self._children.remove(child)
                self._tell(f"-{child.pid}")

    def stop(self) -> None:
        """Stop all children in reverse order, remove the directories; a second call does nothing."""
        if os.getpid() != self._owner:
            return  # a fork of the program that started them: not its children
        with self._lock:
            while self._children:
                self.stop_one(self._children[-1])
            while self._directories:
                self.remove_directory(self._directories[-1])
            self._logs = None
            if self._watchdog is not None and self._watchdog.stdin is not None:
                self._watchdog.stdin.close()
                self._watchdog.wait()
                self._watchdog = None
        atexit.unregister(self.stop)

    def _log_of(self, name: str) -> Path:
        names = (f"{name}.log", *(f"{name}-{number}.log" for number in range(2, 1000)))
        return next(path for path in (self.logs / each for each in names) if not path.exists())

    def _tell(self, line: str) -> None:
        """Tell the watchdog, which is started with the first thing that it has to know."""
        if self._watchdog is None:
            atexit.register(self.stop)
            self._watchdog = subprocess.Popen(
                [sys.executable, "-I", "-S", watchdog.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        if self._watchdog.stdin is not None:
            # One that was killed by hand takes our SIGKILL safety with it, and nothing else.
            with contextlib.suppress(BrokenPipeError):
                self._watchdog.stdin.write(f"{line}\n".encode())
                self._watchdog.stdin.flush()


@dataclass(frozen=True, slots=True)
class Service:
    """Something that answers at a URL.

    Attributes:
        url: Where it answers.
        process: What we started for it; none for a service that was there.
        processes: What that process belongs to.
        directory: What it keeps its data in, removed when it stops.
    """

    url: str
    process: Process | None = None
    processes: Processes | None = None
    directory: Path | None = None

    @property
    def external(self) -> bool:
        """Whether it was there before us."""
        return self.process is None

    def stop(self) -> None:
        """Stop it, if we started it; nothing of it is left."""
        if self.process is not None and self.processes is not None:
            self.processes.stop_one(self.process)
            if self.directory is not None:
                self.processes.remove_directory(self.directory)


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def port_is_open(port: int) -> bool:
    """Tell whether somebody listens on a port of 127.0.0.1."""
    with socket.socket() as client:
        client.settimeout(1.0)
        return client.connect_ex(("127.0.0.1", port)) == 0


def answers(url: str) -> bool:
    """Tell whether an HTTP server answers at a URL, with whatever status below 500."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5.0)
    try:
        connection.request("GET", parts.path or "/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _leave(number: int, _frame: FrameType | None) -> None:
    """Turn a signal into the ordinary end of a program, so that context managers are left."""
    raise SystemExit(128 + number)
