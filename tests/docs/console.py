"""Run what a page shows in a `console` block, and compare what it prints.

`curl` lines go through Django's test client, `python manage.py` lines through its commands; what a test has no use for
(installing, starting servers) is passed over by name, and anything else is an error, so that nothing is passed over
unseen. In the output that a page shows, `…` stands for anything, and a JSON member `"…"` for further members.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterator
from io import StringIO
from typing import Any
from urllib.parse import urlsplit

from django.core.management import call_command
from django.test import Client

__all__ = ["commands", "compare_answer", "compare_text", "run_console"]

PASSED_OVER = re.compile(
    r"pip install|python -m pip|createdb|django-admin startproject|celery |pytest|psql "
    r"|python manage\.py (startapp|runserver|createsuperuser|shell)"
)


def run_console(text: str) -> None:
    """Run the commands of a block, in order.

    Raises:
        AssertionError: one of them prints something else than the page shows.
    """
    for command, shown in commands(text):
        words = shlex.split(command)
        if PASSED_OVER.match(command):
            continue
        if words[:2] == ["python", "manage.py"]:
            out = StringIO()
            call_command(*words[2:], stdout=out, stderr=out)
            compare_text(shown, out.getvalue(), command)
        elif words[0] == "curl":
            compare_answer(shown, _curl(words[1:]), command)
        else:
            raise AssertionError(f"no test runs {command!r}")


def compare_answer(shown: str, got: str, command: str) -> None:
    """Compare an answer with what the page shows of it: the status, the headers that it shows, the body.

    Args:
        shown: what the page shows, or "".
        got: status line, headers, an empty line, body: as `curl -i` prints them.
        command: what was asked.
    """
    if not shown:
        return
    head, _, shown_body = shown.partition("\n\n")
    got_head, _, body = got.partition("\n\n")
    status, *headers = head.splitlines()
    # a later Python has another phrase for 422
    for line in [f"{status[:12]} …", *headers]:
        assert any(_matches(line, actual) for actual in got_head.splitlines()), f"{command}\nshows {line!r}, got\n{got}"
    if shown_body:
        assert _same_body(shown_body, body), f"{command}\nshows\n{shown_body}\ngot\n{got}"


def compare_text(shown: str, printed: str, command: str) -> None:
    """Compare what a command printed: each line that the page shows is one of its lines."""
    lines = printed.splitlines()
    for line in shown.splitlines():
        assert any(_matches(line.strip(), actual.strip()) for actual in lines), (
            f"{command}\nshows {line!r}, got\n{printed}"
        )


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield (command, shown output) pairs; a command may go on after a backslash at its line's end."""
    text = text.replace("\\\n", " ")
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command.strip(), shown.strip()


def _curl(words: list[str]) -> str:
    headers: dict[str, str] = {}
    method, url, body = "", "", None
    rest = iter(words)
    for word in rest:
        if word == "-H":
            name, _, value = next(rest).partition(":")
            headers[name.strip()] = value.strip()
        elif word == "-u":
            headers["Authorization"] = "Basic " + base64.b64encode(next(rest).encode()).decode()
        elif word == "-d":
            body = next(rest)
        elif word == "-X":
            method = next(rest)
        elif word.startswith("http"):
            url = word
        elif word != "-i":
            raise AssertionError(f"the tests' curl does not know {word}")
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    client = Client(SERVER_NAME="localhost", raise_request_exception=False)
    kind = headers.pop("Content-Type", "application/x-www-form-urlencoded")
    answer = client.generic(method or ("POST" if body else "GET"), target, body or "", kind, headers=headers)
    head = [f"HTTP/1.1 {answer.status_code} {answer.reason_phrase}"]
    head += [f"{name}: {value}" for name, value in answer.headers.items()]
    return "\n".join([*head, "", answer.content.decode()])


def _same_body(shown: str, body: str) -> bool:
    try:
        return _same(json.loads(shown), json.loads(body))
    except ValueError:
        return _matches(shown.strip(), body.strip())


def _same(shown: Any, got: Any) -> bool:
    if isinstance(shown, dict) and isinstance(got, dict):
        names = set(shown) - {"…"}
        complete = "…" in shown or set(got) == names
        return complete and names <= set(got) and all(_same(shown[name], got[name]) for name in names)
    if isinstance(shown, list) and isinstance(got, list):
        return len(shown) == len(got) and all(map(_same, shown, got))
    if isinstance(shown, str) and isinstance(got, str):
        return _matches(shown, got)
    return bool(shown == got and type(shown) is type(got))


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("…"))), text, re.DOTALL) is not None
