"""The soak's processes: forked, killed, stopped for a moment, replaced."""

from __future__ import annotations

import itertools
import logging
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from django.db import connection

from benchmarks.roles import ROLES, Diary

__all__ = ["Crowd"]

#: Seconds for which a process is stopped at most: well below the quiet time.
STOPPED = 1.2
#: Seconds in which a process that was asked to end does so.
GRACE = 20.0
_ENDINGS = {signal.SIGTERM, signal.SIGHUP}


@dataclass
class _Member:
    role: str
    resume_at: float = 0.0


class Crowd:
    """Forks members of each role and keeps their number while it kills them.

    Args:
        diaries: the directory of what they were told.
        port: of the bad network before the database, on 127.0.0.1.
        seed: of all dice.
    """

    def __init__(self, diaries: Path, port: int, seed: int) -> None:
        self.kills: Counter[str] = Counter()
        self.stops = 0
        self._diaries, self._port, self._dice = diaries, port, random.Random(seed)
        self._numbers = itertools.count(1)
        self._members: dict[int, _Member] = {}

    def start(self, role: str) -> None:
        """Fork one more."""
        number, seed = next(self._numbers), self._dice.randrange(2**32)
        # A signal that meets the child before it has handlers of its own would unwind the parent's stack in it:
        # databases would be dropped, servers stopped. It waits until the child is itself.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
        try:
            parent, pid = os.getpid(), os.fork()
            if pid == 0:
                self._live(role, number, seed, parent)
            self._members[pid] = _Member(role)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def harm_until(self, end: float) -> None:
        """Kill and stop members at random times, and replace the dead, until an instant of the monotonic clock."""
        while (now := time.monotonic()) < end:
            self._resume(now)
            for role in self._reap():  # nobody ended it, and it ended: the diary says why
                self.start(role)
            time.sleep(min(self._dice.uniform(0.1, 1.0), end - now))
            pid = self._dice.choice(sorted(self._members))
            if self._dice.random() < 0.6:
                self._kill(pid)
            elif not self._members[pid].resume_at:
                os.kill(pid, signal.SIGSTOP)
                self.stops += 1
                self._members[pid].resume_at = time.monotonic() + self._dice.uniform(0.2, STOPPED)
        self._resume(float("inf"))

    def end(self) -> bool:
        """Ask all to end, and wait for them; tell whether all did. Those that do not are killed."""
        for pid in self._members:
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        while self._members and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.02)
        polite = not self._members
        for pid in self._members:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self._members.clear()
        return polite

    def _kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        role = self._members.pop(pid).role
        self.kills[role] += 1
        self.start(role)

    def _resume(self, now: float) -> None:
        for pid, member in self._members.items():
            if member.resume_at and member.resume_at <= now:
                os.kill(pid, signal.SIGCONT)
                member.resume_at = 0.0

    def _reap(self) -> list[str]:
        ended = [pid for pid in self._members if os.waitpid(pid, os.WNOHANG)[0]]
        return [self._members.pop(pid).role for pid in ended]

    def _live(self, role: str, number: int, seed: int, parent: int) -> NoReturn:
        """Be a member: nothing of the parent's is touched, and nothing of it runs at the end."""
        try:
            # a group of its own is orphaned when the parent dies: the kernel then continues who is stopped, and ends it
            os.setpgid(0, 0)
            # the pipe to the parent's watchdog too, which waits for its end
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            self._work(role, number, seed, parent)
        except BaseException:  # noqa: BLE001 - whatever it is, the parent's code must not run here
            traceback.print_exc()
        finally:
            logging.shutdown()
            os._exit(0)

    def _work(self, role: str, number: int, seed: int, parent: int) -> None:
        diary, told = Diary(self._diaries / f"{role}-{number}.jsonl"), threading.Event()
        try:
            signal.signal(signal.SIGTERM, lambda *_: told.set())
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
            threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
            log = (self._diaries / f"{role}-{number}.log").open("w")
            os.dup2(log.fileno(), sys.stdout.fileno())
            os.dup2(log.fileno(), sys.stderr.fileno())
            connection.settings_dict.update(HOST="127.0.0.1", PORT=self._port)
            random.seed(seed)
            ROLES[role](diary, random.Random(seed), told.is_set)
        except BaseException as error:
            diary.write(surprise=f"{role} ended: {type(error).__name__}: {error}"[:300])
            raise


def _die_with(parent: int) -> None:
    """End this process when its parent is gone: one that waits for the database would wait for ever."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
