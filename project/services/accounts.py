"""Accounts that child processes run under, and the places that such an account can reach."""

import pwd
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Account:
    """An account of this machine."""

    name: str
    uid: int
    gid: int

    @classmethod
    def named(cls, name: str) -> "Account":
        """Return the account of that name; raises `KeyError` where there is none."""
        entry = pwd.getpwnam(name)
        return cls(name, entry.pw_uid, entry.pw_gid)


def is_reachable(directory: Path) -> bool:
    """Tell whether every account may go into a directory."""
    resolved = directory.resolve()
    return all(each.stat().st_mode & 0o001 for each in (resolved, *resolved.parents))


def temporary_root(owner: Account | None) -> Path | None:
    """Return a directory for temporary files that an account can reach, ours when not given."""
    if owner is None:
        return Path(tempfile.gettempdir())
    roots = (tempfile.gettempdir(), "/tmp", "/var/tmp")  # noqa: S108 - what is made in them is made by mkdtemp
    return next((root for root in map(Path, roots) if root.is_dir() and is_reachable(root)), None)
