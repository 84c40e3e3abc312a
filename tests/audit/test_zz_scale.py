import resource, time, gc
import pytest
from collections import Counter
from django.db import connection, transaction
import effects
from effects import _locks
from effects.audit import audit, Scope
from effects.models import *
from tests.audit.journals import perform
from tests.core.declared import Plain
from datetime import timedelta

@pytest.mark.django_db(transaction=True)
def test_scale():
    ref = perform(Plain, "k", effects.Applied(1, "x"))
    with transaction.atomic(), connection.cursor() as c:
        c.execute("SET CONSTRAINTS ALL IMMEDIATE")
        c.execute("DROP INDEX effects_execution_one_per_key; ALTER TABLE effects_execution DROP CONSTRAINT effects_execution_provider_key")
        cols = [f.column for f in Execution._meta.concrete_fields if f.column != "id"]
        c.execute(f"CREATE TEMP TABLE m AS SELECT gen_random_uuid() AS id FROM generate_series(1, 40000)")
        c.execute(f"INSERT INTO effects_execution (id, {','.join(cols)}) SELECT m.id, {','.join('e.'+x for x in cols)} FROM effects_execution e, m")
        for M, table in ((Receipt, "effects_receipt"), (Attempt, "effects_attempt")):
            cols = [f.column for f in M._meta.concrete_fields if f.column not in ("id", "execution_id")]
            idc, idv = ("id,", "gen_random_uuid(),") if M is Attempt else ("", "")
            c.execute(f"INSERT INTO {table} ({idc} execution_id, {','.join(cols)}) SELECT {idv} m.id, {','.join('e.'+x for x in cols)} FROM {table} e, m")
        c.execute("ANALYZE effects_execution; ANALYZE effects_receipt; ANALYZE effects_attempt")
        gc.collect()
        for scope in (Scope(_locks.now()+timedelta(minutes=1)), Scope(_locks.now()+timedelta(minutes=1), since=_locks.now())):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            t = time.time(); checked = Counter()
            n = sum(1 for _ in audit(scope, checked))
            print(n, checked, round(time.time()-t, 1), "s", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss-before)//1024, "MiB more")
        transaction.set_rollback(True)
