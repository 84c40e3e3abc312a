"""Tell statements that read from statements that write, by their text."""

from __future__ import annotations

import re

__all__ = ["is_read", "text_of"]

#: Comments and quoted text, each from where it begins: a comment's sign inside of quotes is none, nor the reverse.
_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?\*/|\bE'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'|"(?:[^"]|"")*\"""", re.DOTALL | re.IGNORECASE
)
#: What is left of quotes and comments that are not understood: nested ones, dollar quotes, one without an end.
_NOT_UNDERSTOOD = re.compile(r"""['"]|/\*|\*/|\$\w*\$""")
#: Statements that change no row. Savepoints and SET LOCAL belong to blocks that the watched statements are in.
_HARMLESS = ("SAVEPOINT ", "RELEASE ", "ROLLBACK TO ", "SET LOCAL ", "SET CONSTRAINTS ", "SHOW ")
_WRITES = re.compile(r"\b(?:INSERT|UPDATE|DELETE|MERGE|INTO)\b")


def is_read(sql: object) -> bool:
    """Return whether a statement is plainly a read: one SELECT (also `FOR UPDATE`), or no change at all."""
    text = _TOKEN.sub(_without_contents, text_of(sql)).strip().rstrip(";").upper()
    if ";" in text or _NOT_UNDERSTOOD.search(text):
        return False
    if text.startswith(_HARMLESS):
        return True
    if text.startswith("SELECT"):
        return "INTO" not in text or re.search(r"\bINTO\b", text) is None
    # a common table expression may hide a write; FOR UPDATE in one is taken for it, which errs on the safe side
    return text.startswith("WITH") and _WRITES.search(text) is None


def _without_contents(token: re.Match[str]) -> str:
    return " " if token[0].startswith(("--", "/*")) else " x "


def text_of(sql: object) -> str:
    """Return a statement as text, whatever the driver was given."""
    if isinstance(sql, str):
        return sql
    if isinstance(sql, bytes):
        return sql.decode("utf-8", "replace")
    return str(sql.as_string(None)) if hasattr(sql, "as_string") else str(sql)
