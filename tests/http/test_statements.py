"""Telling reads from writes."""

from __future__ import annotations

import pytest

from effects.http.statements import is_read

READS = [
    "SELECT 1",
    '  select "a" from "t" where "b" = %s',
    "SELECT * FROM t FOR UPDATE",
    "SELECT 'INSERT; INTO' FROM t",
    "-- a comment\nSELECT 1;",
    "/* x */ SELECT 1",
    "WITH a AS (SELECT 1) SELECT * FROM a",
    'SAVEPOINT "s1"',
    'RELEASE SAVEPOINT "s1"',
    'ROLLBACK TO SAVEPOINT "s1"',
    "SET LOCAL lock_timeout = '1s'",
    "SHOW server_version",
    "SELECT '--' FROM t",
    "SELECT E'it\\'s; ' FROM t /* 'it''s' */",
]
WRITES = [
    'INSERT INTO "t" VALUES (1)',
    "UPDATE t SET a = 1",
    "DELETE FROM t",
    "WITH a AS (INSERT INTO t VALUES (1) RETURNING id) SELECT * FROM a",
    "SELECT 1; DELETE FROM t",
    "SELECT 1 INTO t2",
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
    # not understood, so not plainly a read
    "/* /* */ SELECT 1 */ DELETE FROM t",
    "SELECT $$'$$; DELETE FROM t WHERE a = ''",
    "SELECT 'not closed",
]


@pytest.mark.parametrize("sql", [*READS, b"SELECT 1"])
def test_reads(sql: object) -> None:
    """Plainly a SELECT, or no change at all."""
    assert is_read(sql)


@pytest.mark.parametrize("sql", [*WRITES, b"DELETE FROM t"])
def test_all_else_is_a_write(sql: object) -> None:
    """Whatever is not plainly a read."""
    assert not is_read(sql)
