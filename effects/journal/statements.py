r"""Tell statements that read from statements that write, by their text, as PostgreSQL would read it.

Whatever is not surely a read counts as a write. The text is taken apart here and not by sqlparse, which reads
`'\'; DELETE FROM t; --'` as one string (standard SQL ends it at the second quote), knows no nested comments, and takes
a third of a second for ten thousand parameters.
"""

from __future__ import annotations

import re
from functools import lru_cache

from django.conf import settings as project
from django.core.cache.backends.db import BaseDatabaseCache
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import import_string

__all__ = ["is_cache_write", "is_read", "text_of", "why_no_read"]

#: Verdicts that are remembered, and the longest text that is worth it. A project has few texts: values are parameters.
REMEMBERED, LONGEST = 2048, 10_000

#: What says nothing of what is done: placeholders, quoted text and names, each from where it begins. A plain string
#: with a backslash before a quote is left: where it ends hangs on a setting of the session.
_QUOTED = re.compile(
    r"""%\([^)]*\)[sbt]|\bE'(?:[^'\\]|''|\\.)*'|'(?:[^'\\]|''|\\[^'])*'|"(?:[^"]|"")*\""""
    r"""|(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$|--[^\n\r]*|/\*""",
    re.DOTALL | re.IGNORECASE,
)
_COMMENT = re.compile(r"/\*|\*/")
#: What is left of quotes and comments that were not understood, such as one without an end.
_NOT_UNDERSTOOD = re.compile(r"""['"\x00]|\$\w*\$|/\*|\*/""")
#: Statements of a session, its locks, cursors and savepoints: they change no row. COMMIT and its like are not among
#: them, since they end the block that the key and the answer stand in.
_HARMLESS = frozenset(
    "SET RESET SHOW SAVEPOINT RELEASE LOCK FETCH MOVE CLOSE DEALLOCATE LISTEN UNLISTEN".split()  # noqa: SIM905
)
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
#: Words by which a query writes, row locks and names behind a dot apart; and PostgreSQL's own functions that write or
#: send. Of other functions nobody can tell.
_WRITES = re.compile(
    r"\b(?:(?<!\.)(?<!\bFOR )(?<!\bNO KEY )(?:INSERT|UPDATE|DELETE|MERGE|INTO)\b"
    r"|(?:PG_NOTIFY|SETVAL|DBLINK_EXEC|LOWRITE|LO_(?:CREATE?|UNLINK|PUT|FROM_BYTEA|IMPORT|EXPORT|TRUNCATE(?:64)?)"
    r"|PG_LOGICAL_EMIT_MESSAGE) ?\()"
)
_WORD = re.compile(r"\w+")
_EXPLAIN = re.compile(r"EXPLAIN ?(\([^()]*\)|(?:(?:ANALY[SZ]E|VERBOSE) )*) ?")
#: By which EXPLAIN runs what it explains; a quoted name may be that word.
_ANALYZES = re.compile(r"\b(?:ANALY[SZ]E|X)\b")
_CURSOR = re.compile(r"DECLARE .*?\bCURSOR (?:WITH(?:OUT)? HOLD )?FOR ")


def is_read(sql: object) -> bool:
    """Return whether a statement surely changes no row and sends nothing: `why_no_read` says nothing."""
    return not why_no_read(sql)


def why_no_read(sql: object) -> str:
    """Return what a statement does that no read does, as the words after "the view"; empty for a read.

    A read is a query, with or without row locks, and what sets, shows or locks something of the session. Functions that
    write are not seen.
    """
    text = text_of(sql)
    return _remembered(text) if len(text) <= LONGEST else _judged(text)


def is_cache_write(sql: object, connection: BaseDatabaseWrapper) -> bool:
    """Return whether a statement is one by which Django's `DatabaseCache` writes a table of `CACHES`.

    A cache may be emptied at any time, so that its rows record nothing. In Redis nobody sees them either.
    """
    text = text_of(sql)
    if ";" in text or re.search(r"\bSELECT\b", text, re.IGNORECASE):
        return False
    tables = {
        connection.ops.quote_name(cache["LOCATION"])
        for cache in project.CACHES.values()
        if cache.get("LOCATION") and issubclass(import_string(cache["BACKEND"]), BaseDatabaseCache)
    }
    verbs = ("INSERT INTO", "UPDATE", "DELETE FROM")
    return any(f"{text} ".startswith(f"{verb} {table} ") for table in tables for verb in verbs)


def text_of(sql: object) -> str:
    """Return a statement as text, whatever the driver was given."""
    if isinstance(sql, str):
        return sql
    if isinstance(sql, bytes):
        return sql.decode("utf-8", "replace")
    return str(sql.as_string(None)) if hasattr(sql, "as_string") else str(sql)


def _judged(text: str) -> str:
    bare = _without_contents(text)
    if _NOT_UNDERSTOOD.search(bare):
        return "runs a statement whose quotes or comments cannot be told apart, so that it may write,"
    statements = " ".join(bare.split()).upper().split(";")
    return next((why for each in statements if (why := _why_no_read(each.lstrip(" (")))), "")


_remembered = lru_cache(maxsize=REMEMBERED)(_judged)


def _without_contents(text: str) -> str:
    """Return a statement without its comments and with an x for all that is quoted."""
    kept, at = [], 0
    while token := _QUOTED.search(text, at):
        kept.append(text[at : token.start()])
        at = token.end()
        if token[0] != "/*":
            kept.append(" " if token[0].startswith("--") else " x ")
        elif end := _end_of_comment(text, at):
            at = end
            kept.append(" ")
        else:
            kept.append("/*")
    return "".join((*kept, text[at:]))


def _end_of_comment(text: str, at: int) -> int:
    """Return where a comment ends whose inside begins at `at`; they nest. 0 for one without an end."""
    depth = 1
    for sign in _COMMENT.finditer(text, at):
        depth += 1 if sign[0] == "/*" else -1
        if depth == 0:
            return sign.end()
    return 0


def _why_no_read(statement: str) -> str:
    """Return why one statement, bare and in capitals, is no read."""
    word = first[0] if (first := _WORD.match(statement)) else ""
    if explained := _EXPLAIN.match(statement):
        runs = _ANALYZES.search(explained[1])
        return _why_no_read(statement[explained.end() :].lstrip(" (") or "EXPLAIN") if runs else ""
    if cursor := _CURSOR.match(statement):
        return _why_no_read(statement[cursor.end() :].lstrip(" ("))
    if not statement.strip() or word in _HARMLESS or re.match(r"ROLLBACK (?:(?:WORK|TRANSACTION) )?TO ", statement):
        return ""
    if word in _QUERIES or (word == "COPY" and re.search(r"\bTO STDOUT\b", statement)):
        return f"writes ({found[0].rstrip(' (')})" if (found := _WRITES.search(statement)) else ""
    return f"writes ({word})" if _WRITES.match(statement) else f"runs {word or statement[:1]}, which may write,"
