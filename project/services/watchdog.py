"""End what a process started, when that process is gone and could not do it itself.

Run as a script, with the read end of a pipe as standard input and nothing but the standard library. The lines
it reads are `+PID SIGNAL` and `-PID` for groups of processes and `>PATH` for directories. A pipe that ends,
however the other side came to its end, SIGKILL included, is the order to clean up.
"""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

GRACE = 5.0  # as long as a person waits before looking into the list of processes


def signal_group(group: int, number: int) -> bool:
    """Signal a group of processes; tell whether there is one."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_groups(groups: dict[int, int]) -> None:
    """End groups of processes, the last first: politely, and after the grace with SIGKILL."""
    left = [group for group, polite in reversed(groups.items()) if signal_group(group, polite)]
    deadline = time.monotonic() + GRACE
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [group for group in left if signal_group(group, 0)]
    for group in left:
        signal_group(group, signal.SIGKILL)


def main() -> None:
    """Follow the pipe to its end, then clean up."""
    for interrupt in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(interrupt, signal.SIG_IGN)
    groups: dict[int, int] = {}
    directories: list[Path] = []
    for line in sys.stdin:
        kind, words = line[0], line[1:].rstrip("\n")
        if kind == "+":
            group, number = words.split()
            groups[int(group)] = int(number)
        elif kind == "-":
            groups.pop(int(words), None)
        else:
            directories.append(Path(words))
    end_groups(groups)
    for directory in reversed(directories):
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
