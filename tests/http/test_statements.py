"""Telling reads from writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from psycopg import sql as composed

from effects.http.statements import is_read
from effects.journal import statements
from effects.models import Request
from tests.http.conftest import Sender
from tests.http.reading import state

READS = [
    "SELECT 1",
    '  select "a" from "t" where "b" = %s',
    "SELECT 'INSERT; INTO' FROM t",
    "-- a comment\nSELECT 1;",
    "/* x */ SELECT 1",
    "/* /* nested */ DELETE */ SELECT 1",
    "WITH a AS (SELECT 1) SELECT * FROM a",
    'WITH a AS (SELECT "t"."update" FROM "t") SELECT * FROM a',
    '(SELECT a FROM t) UNION (SELECT "update" FROM t)',
    "((SELECT 1)) UNION ALL ((SELECT 2) EXCEPT SELECT 3) ORDER BY 1",
    "( WITH a AS (SELECT 1) SELECT * FROM a ) LIMIT 1",
    "VALUES (1, 'DELETE'), (2, '')",
    "table t",
    "EXPLAIN SELECT 1",
    "EXPLAIN DELETE FROM t",
    "EXPLAIN (VERBOSE, FORMAT JSON) UPDATE t SET a = 1",
    "EXPLAIN ANALYZE SELECT * FROM t",
    "EXPLAIN (ANALYZE, FORMAT 'json') (SELECT 1)",
    'SAVEPOINT "s1"',
    'RELEASE SAVEPOINT "s1"',
    'ROLLBACK TO SAVEPOINT "s1"',
    "ROLLBACK WORK TO s1",
    "SET LOCAL lock_timeout = '1s'",
    "SET search_path = 'tenant_1', public",
    "SET ROLE NONE",
    "set session time zone 'UTC'",
    "SET CONSTRAINTS ALL IMMEDIATE",
    "RESET search_path",
    "SHOW server_version",
    "SET search_path = a; SELECT 1;",
    "DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT * FROM t",
    "FETCH FORWARD 10 FROM c",
    "MOVE 5 FROM c",
    "CLOSE c",
    "COPY t TO STDOUT",
    "COPY (SELECT a FROM t WHERE b = 'INSERT') TO STDOUT (FORMAT csv)",
    "SELECT now(), count(*), coalesce(a, 0) FROM t GROUP BY a",
    "SELECT set_config('app.tenant', %s, false)",
    "SELECT pg_advisory_xact_lock(1)",
    "SELECT '--' FROM t",
    "SELECT E'it\\'s; ' FROM t /* 'it''s' */",
    "SELECT $$'$$, $a$; DELETE FROM t $a$, a FROM t WHERE b = ''",
    "SELECT 'a' WHERE 'b' LIKE 'x\\_%%'",
    "SELECT %(update)s, %(a;b)s",
    "",
    "-- nothing at all",
]  # fmt: skip
LOCKS = [
    "SELECT * FROM t FOR UPDATE",
    "SELECT * FROM t FOR NO KEY UPDATE SKIP LOCKED",
    "WITH a AS (SELECT * FROM t FOR\n UPDATE OF t NOWAIT) SELECT * FROM a",
    "(SELECT * FROM t) FOR KEY SHARE",
    "LOCK TABLE t IN SHARE MODE",
]
WRITES = [
    'INSERT INTO "t" VALUES (1)',
    "UPDATE t SET a = 1",
    "DELETE FROM t",
    "MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE",
    "WITH a AS (INSERT INTO t VALUES (1) RETURNING id) SELECT * FROM a",
    "WITH a AS (SELECT 1) UPDATE t SET a = 1",
    "WITH a AS (UPDATE t SET a = 1 RETURNING id) SELECT * FROM t FOR UPDATE",
    "WITH a AS (SELECT 1), b AS MATERIALIZED (DELETE FROM t RETURNING 1) TABLE b",
    "WITH RECURSIVE a AS (SELECT 1 AS key) CYCLE key SET m USING key UPDATE t SET a = 1",
    "(WITH a AS (DELETE FROM t RETURNING 1) SELECT * FROM a)",
    "SELECT 1; DELETE FROM t",
    "SELECT 1; COMMIT",
    "SELECT 1 INTO t2",
    "SELECT a INTO TEMP t2 FROM t",
    "EXPLAIN ANALYZE DELETE FROM t",
    "EXPLAIN (BUFFERS, ANALYZE) UPDATE t SET a = 1",
    "explain analyse verbose WITH a AS (DELETE FROM t RETURNING 1) SELECT 1",
    'EXPLAIN ("analyze") DELETE FROM t',
    "EXPLAIN ANALYZE EXECUTE p",
    "EXPLAIN ANALYZE CREATE TABLE t2 AS SELECT 1",
    "COPY t FROM STDIN",
    "COPY t FROM stdout",
    "COPY t TO PROGRAM 'sh'",
    "COPY t TO '/tmp/t'",
    "COPY (DELETE FROM t RETURNING a) TO STDOUT",
    "EXECUTE p(1)",
    "PREPARE TRANSACTION 'x'",
    "COMMIT",
    "ROLLBACK",
    "NOTIFY c, 'x'",
    "SELECT pg_notify('c', 'x')",
    "SELECT pg_catalog.lo_unlink (1)",
    "REFRESH MATERIALIZED VIEW v",
    "TRUNCATE t",
    "CALL p()",
    "DO $$ BEGIN END $$",
    "CREATE TABLE t2 (a int)",
    "/* SELECT */ INSERT INTO t VALUES (1)",
    "SELECT '--'; DELETE FROM t",
    "WITH a AS (SELECT '--'), b AS (DELETE FROM t RETURNING 1) SELECT 1",
    'WITH a AS (SELECT "--" FROM t), b AS (DELETE FROM t RETURNING 1) SELECT 1',
    "SELECT '/*', id INTO t2 FROM t WHERE a = '*/'",
    "SELECT E'\\'' , 'x'; DELETE FROM t --'",
    "/* /* */ SELECT 1 */ DELETE FROM t",
    "SELECT $$'$$; DELETE FROM t WHERE a = ''",
    "SELECT U&'\\'; DELETE FROM t; --'",
    # not understood, so not surely a read
    "SELECT '\\'; DELETE FROM t; --'",
    "SELECT 'not closed",
    "SELECT 1 /* /* not closed */",
    "SELECT $a$ not closed",
    "?",
]


@pytest.mark.parametrize(
    "sql", [*READS, *LOCKS, b"SELECT 1", composed.SQL("SELECT {}").format(composed.Identifier("insert"))]
)
def test_reads(sql: object) -> None:
    """A query, also one that locks rows, or what sets the session."""
    assert is_read(sql)


@pytest.mark.parametrize(
    "sql", [*WRITES, b"DELETE FROM t", composed.SQL("DELETE FROM {}").format(composed.Identifier("select"))]
)
def test_all_else_is_a_write(sql: object) -> None:
    """Whatever is not surely a read."""
    assert not is_read(sql)


@pytest.mark.django_db(transaction=True)
def test_postgresql_agrees() -> None:
    """A read-only transaction, which PostgreSQL itself guards, takes each of our reads; they are valid, too."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a int, b text, \"update\" int)")  # fmt: skip
    try:
        for text in READS:
            if "COPY" not in text and "SAVEPOINT" not in text and "ROLLBACK" not in text and " c" not in text:
                _run_read_only(text)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE t")
            cursor.execute("RESET ALL")


def _run_read_only(text: str) -> None:
    names = {"update": 1, "a;b": 2} if "%(" in text else [None] * text.replace("%%", "").count("%s")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        try:
            cursor.execute(text, names or None)
        except DatabaseError as error:
            raise AssertionError(text) from error
        transaction.set_rollback(True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("WITH a AS (DELETE FROM t RETURNING 1) SELECT 1", "writes (DELETE)"),
        ("SELECT 1; UPDATE t SET a = 1", "writes (UPDATE)"),
        ("SELECT pg_notify('a', 'b')", "writes (PG_NOTIFY)"),
        ("COMMIT", "runs COMMIT, which may write,"),
        ("CALL p()", "runs CALL, which may write,"),
        ("SELECT 'open", "runs a statement whose quotes or comments cannot be told apart, so that it may write,"),
    ],
)
def test_the_words_say_what_was_found(text: str, words: str) -> None:
    """"Writes" of what writes; what is only not known to read is not called a write."""  # fmt: skip
    assert statements.why_no_read(text) == words


def test_verdicts_are_remembered_within_bounds() -> None:
    """A text is judged once; a long one is not kept, and the oldest make room."""
    statements._remembered.cache_clear()
    for _ in range(3):
        assert is_read("SELECT 1")
    assert not is_read("DELETE FROM t WHERE a IN (" + ", ".join(["%s"] * 10_000) + ")")
    assert statements._remembered.cache_info()[:4] == (2, 1, statements.REMEMBERED, 1)


IN_VIEWS = pytest.mark.parametrize(
    "sql",
    [
        "(SELECT id FROM auth_group) UNION (SELECT id FROM auth_user)",
        "SET search_path = public",
        "/* by the router */ (VALUES (1)) LIMIT 1",
        "EXPLAIN ANALYZE SELECT * FROM auth_group",
    ],
)


@pytest.mark.django_db(transaction=True)
@IN_VIEWS
def test_a_read_is_no_local_write(send: Sender, sql: str) -> None:
    """A declared view may read and set the session outside of `finishing()`, whatever the statement begins with."""
    assert send("/declared/api/", do="runs", sql=sql).status_code == 200
    assert send("/declared/api/", "other", do="runs", sql=sql, status=404).status_code == 404
    assert state("other") == "released"


@pytest.mark.django_db(transaction=True)
@IN_VIEWS
def test_a_refusal_after_a_read_keeps_no_key(send: Sender, sql: str) -> None:
    """A transactional view that only read and answers 404 leaves its key free."""
    assert send("/transactional/api/", do="runs", sql=sql, status=404).status_code == 404
    assert not Request.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_union_of_the_orm(send: Sender) -> None:
    """`a.union(b)` begins with a parenthesis."""
    assert send("/declared/api/", do="unites").status_code == 200


@pytest.fixture
def cache_table(settings: Any, transactional_db: None) -> Iterator[None]:
    """A cache in a table of the journal's database."""
    backend = "django.core.cache.backends.db.DatabaseCache"
    options = {"MAX_ENTRIES": 2, "CULL_FREQUENCY": 0}
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": "kept_things", "OPTIONS": options}}
    call_command("createcachetable")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE kept_things")


@pytest.mark.parametrize("do", ["caches", "counts", "forgets", "culls"])
def test_a_cache_in_the_database_is_no_record(cache_table: None, send: Sender, do: str) -> None:
    """What Redis would keep, a table may keep: a declared view is not refused, and no key stands because of it."""
    assert send("/declared/api/", do=do).status_code == 200
    assert send("/declared/api/", "other", do=do, status=404).status_code == 404
    assert state("other") == "released"
    assert send("/transactional/api/", "third", do=do, status=404).status_code == 404
    assert not Request.objects.filter(key="third").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE kept_things SET value = ''",
        'DELETE FROM "kept_things" USING auth_group; DELETE FROM auth_group',
        'DELETE FROM "kept_things_too" WHERE true',
        'INSERT INTO "kept_things" (value) WITH a AS (DELETE FROM auth_group RETURNING name) SELECT name FROM a',
    ],
)
def test_only_what_the_cache_itself_says_passes(cache_table: None, sql: str) -> None:
    """Its own statements on its own table, one at a time."""
    assert not statements.is_cache_write(sql, connection)
