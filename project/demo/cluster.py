"""The processes of the demo: services, web server, worker, beat; each to be killed and started again."""

from __future__ import annotations

import contextlib
import io
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import redis as redis_client
from django.core.management import call_command
from django.db import connections

from project.services import postgres, proxy, redis, stripe
from project.services.faults import Faults
from project.services.processes import Process, Processes, ServiceError, answers, free_port, port_is_open
from project.settings import database

from . import pace
from .people import HASHER

__all__ = ["Cluster", "running"]

ROOT = Path(__file__).resolve().parent.parent.parent
WEB_WORKERS, WEB_THREADS, TASK_PROCESSES = 2, 16, 2
CELERY = (sys.executable, "-m", "celery", "-A", "project.celery")
#: A machine that does other things as well needs its time.
READY_WITHIN = 60.0
Note = Callable[[str], None]


@dataclass(slots=True)
class Cluster:
    """All that runs, and where it answers.

    Attributes:
        processes: What the children belong to.
        env: The environment that makes a child part of this cluster.
        port: The web server's.
        provider_url: Stripe, past the bad network.
        faults: The bad network's control.
    """

    processes: Processes
    env: Mapping[str, str]
    port: int
    provider_url: str
    faults: Faults
    _web: Process | None = None
    _worker: Process | None = None
    _beat: Process | None = None

    @property
    def url(self) -> str:
        """The shop's address."""
        return f"http://127.0.0.1:{self.port}"

    def begin(self) -> None:
        """Start the web server and the worker; until they are used they need no tables."""
        self._start_web()
        self._start_worker()

    def complete(self) -> None:
        """Start beat, and wait until everything is ready."""
        directory = self.processes.make_directory("effects-beat-")
        self._beat = self._run("beat", *CELERY, "beat", "--loglevel", "INFO", "-s", str(directory / "beat"))
        self._wait_web()
        self._wait_worker()

    def kill_web(self) -> None:
        """SIGKILL the web server with all its workers, as a power cut would."""
        if self._web is not None:
            self._web.kill()

    def restart_web(self) -> None:
        """Start the web server on its old port, after it was killed."""
        self._start_web()
        self._wait_web()

    def kill_worker(self) -> None:
        """SIGKILL the Celery worker with its processes."""
        if self._worker is not None:
            self._worker.kill()

    def restart_worker(self) -> None:
        """Start a Celery worker after the old one was killed."""
        self._start_worker()
        self._wait_worker()

    def logs(self) -> Iterator[tuple[str, str]]:
        """Iterate over names and last lines of web server, worker and beat."""
        for process in (self._web, self._worker, self._beat):
            if process is not None:
                yield process.name, process.tail(30)

    def stop(self) -> None:
        """End web server, worker and beat at once: their database is thrown away. The services stay."""
        for process in (self._beat, self._web, self._worker):
            if process is not None:
                process.kill()
                self.processes.stop_one(process)

    def _run(self, name: str, *argv: str, grace: float = 5.0) -> Process:
        return self.processes.start(name, argv, env=self.env, cwd=ROOT, grace=grace)

    def _start_web(self) -> None:
        self._web = self._run(
            "web",
            *(sys.executable, "-m", "gunicorn", "project.demo.wsgi:application", "--preload"),
            *("--bind", f"127.0.0.1:{self.port}", "--workers", str(WEB_WORKERS), "--threads", str(WEB_THREADS)),
            # the socket would lie in the home directory, one for all servers of a user
            *("--no-control-socket", "--graceful-timeout", "3"),
        )

    def _wait_web(self) -> None:
        if self._web is not None:
            self._web.wait_until(lambda: answers(f"{self.url}/admin/login/"), within=READY_WITHIN)

    def _start_worker(self) -> None:
        self._worker = self._run(
            "worker",
            *(*CELERY, "worker", "--loglevel", "INFO", "--concurrency", str(TASK_PROCESSES)),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        )

    def _wait_worker(self) -> None:
        worker = self._worker
        if worker is not None:
            worker.wait_until(lambda: worker.logged(" ready."), within=READY_WITHIN)


@contextlib.contextmanager
def running(processes: Processes, *, port: int | None = None, note: Note) -> Iterator[Cluster]:
    """Start what the environment does not give, migrate, check, start the product; stop and drop it at the end.

    This process's own connection leads to the demo's database from then on.

    Args:
        processes: What everything belongs to.
        port: Where the web server listens; a free port when not given.
        note: Told what is going on.

    Raises:
        ServiceError: Something is missing; the message says what to do.
        SystemCheckError: Django's own checks found something.
    """
    if port is not None and port_is_open(port):
        raise ServiceError(f"Port {port} is taken: choose another one with --port, or leave it out for a free one.")
    with contextlib.ExitStack() as stack:
        cluster = _services(stack, processes, port or free_port(), note)
        use_database(cluster.env["DATABASE_URL"])
        stack.callback(connections.close_all)
        stack.callback(cluster.stop)
        cluster.begin()
        note("migrating")
        call_command("migrate", verbosity=0)
        call_command("check", databases=["default"], stdout=io.StringIO())
        note("starting gunicorn, a Celery worker and beat")
        cluster.complete()
        yield cluster


def use_database(url: str) -> None:
    """Lead this process's connection to another database, as Django's own test runner does."""
    connections["default"].close()
    connections["default"].settings_dict.update(database(url))


def _services(stack: contextlib.ExitStack, processes: Processes, port: int, note: Note) -> Cluster:
    note("starting PostgreSQL")
    journal = postgres.start(processes)
    url = stack.enter_context(postgres.scratch_database(journal.url))
    note("starting Redis")
    broker = redis.start(processes)
    prefix = f"demo-{secrets.token_hex(4)}-"
    stack.callback(_forget, broker.url, prefix)
    note("starting localstripe and the bad network before it")
    provider = stripe.start(processes)
    network = proxy.start(processes, provider.url)
    env = {
        **pace.variables(),
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "DATABASE_URL": url,
        "REDIS_URL": broker.url,
        "CELERY_KEY_PREFIX": prefix,
        "STRIPE_API_BASE": network.url,
        "STRIPE_API_KEY": stripe.API_KEY,
        "PASSWORD_HASHER": f"{HASHER.__module__}.{HASHER.__qualname__}",
        # what is killed leaves its temporary files behind; these go with everything else
        "TMPDIR": str(processes.make_directory("effects-demo-")),
        "PYTHONUNBUFFERED": "1",
    }
    return Cluster(processes, env, port, provider.url, Faults(network.url))


def _forget(url: str, prefix: str) -> None:
    """Remove what the demo left in a Redis that lives on."""
    with redis_client.Redis.from_url(url) as client:
        for key in client.scan_iter(f"{prefix}*"):
            client.delete(key)
