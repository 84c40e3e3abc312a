"""Rows that the code of this process cannot go on with: what they were recorded as is not declared any more.

An operation that got another name without an alias, a view that did, a payload that nobody can read: such rows wait for
ever, and their keys protect nothing, since the same key under another name is another occurrence. Asked for at
`check --database`, and by the first sweep of each process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from effects.declarations.effect import Effect, registered
from effects.declarations.operations import find_operation
from effects.journal.commits import journal
from effects.models import Execution
from effects.transitions.intents import binding_of
from effects.vocabulary import canonical

__all__ = ["Orphans", "Trouble", "list_orphans", "list_unprotected"]

#: Rows of one kind whose contents are read, and where counting what is settled stops.
READ, COUNTED = 100, 1000


class Trouble(Enum):
    """Why the code cannot go on with rows."""

    UNKNOWN = "unknown"
    UNREADABLE = "unreadable"
    UNPROTECTED = "unprotected"


@dataclass(frozen=True)
class Orphans:
    """Rows of one operation that this code cannot go on with.

    Attributes:
        trouble: why.
        operation: what they were recorded as.
        count: how many; of settled ones at most `COUNTED`.
        message: what is wrong, in a sentence.
        hint: what to write.
        error: what reading one of them raised, cleaned; it may hold a part of the contents.
    """

    trouble: Trouble
    operation: str
    count: int
    message: str
    hint: str
    error: str = ""


#: One branch for each partial index, so that what is settled is not read: the rows of these states, and the hooks.
_UNSETTLED = " UNION ALL ".join(
    "SELECT id, operation, provider, tenant, key, binding, payload_version, "  # noqa: S608 - constants
    f"CASE WHEN output IS NOT NULL THEN output_version END AS output_version FROM effects_execution WHERE {rows}"
    for rows in (
        "state IN ('needs_intervention', 'pending')",
        "state IN ('accepted', 'uncertain')",
        "state = 'executing'",
        "state = 'awaiting_approval'",
        "hook_due_at IS NOT NULL",
    )
)
#: `binding_of`, in SQL: each part after its length in eight bytes.
_BINDING = (
    "encode(sha256("
    + " || ".join(
        f"int8send(octet_length({part})::bigint) || convert_to({part}, 'UTF8')"
        for part in ("'effects.execution'", "it.tenant", "known.keyed_as", "it.key")
    )
    + "), 'hex')"
)
_GROUPS = f"""
SELECT it.operation, min(it.provider), it.payload_version, it.output_version, it.binding <> {_BINDING}, count(*),
    (array_agg(it.id ORDER BY it.id))[1:{READ}]
FROM ({_UNSETTLED}) AS it
LEFT JOIN unnest(%s::text[], %s::text[]) AS known (operation, keyed_as) ON known.operation = it.operation
GROUP BY 1, 3, 4, 5 ORDER BY 1, 3, 4, 5
"""  # noqa: S608 - as above
#: From name to name through the index, without reading the rows between.
_SETTLED_NAMES = """
WITH RECURSIVE names (operation) AS (
    (SELECT operation FROM effects_execution WHERE settled_at IS NOT NULL ORDER BY operation LIMIT 1)
    UNION ALL
    SELECT (SELECT it.operation FROM effects_execution AS it
            WHERE it.settled_at IS NOT NULL AND it.operation > names.operation ORDER BY it.operation LIMIT 1)
    FROM names WHERE names.operation IS NOT NULL
)
SELECT operation FROM names WHERE operation IS NOT NULL
"""
_VIEWS = """
SELECT operation, count(*) FROM effects_request
WHERE state IN ('waiting', 'in_doubt') AND declared IS NOT NULL GROUP BY 1 ORDER BY 1
"""


@dataclass(frozen=True)
class _Group:
    """Unsettled rows that are alike: `is_foreign` is whether they are keyed under another name; None: unknown."""

    operation: str
    provider: str
    payload_version: int
    output_version: int | None
    is_foreign: bool | None
    count: int
    oldest: list[UUID]


def list_orphans() -> Iterator[Orphans]:
    """Yield the unsettled rows that this code cannot go on with; those whose hook is due among them.

    Two queries, over partial indexes, and one more for each kind of rows whose contents are tried.
    """
    effects = _by_name()
    yield from _unknown_views()
    names = [*effects], [effect.keyed_as for effect in effects.values()]
    groups = [_Group(*row) for row in _ask(_GROUPS, names)]
    for operation in dict.fromkeys(group.operation for group in groups):
        found = [group for group in groups if group.operation == operation]
        if operation not in effects:
            yield _unknown(operation, sum(group.count for group in found), found[0].provider)
            continue
        foreign = [group for group in found if group.is_foreign]
        if foreign:
            yield _foreign(effects[operation], operation, sum(group.count for group in foreign), foreign[0].oldest)
        for group in found:
            yield from _unreadable(effects[operation], group)


def list_unprotected() -> Iterator[Orphans]:
    """Yield the settled rows whose keys protect nothing any more: the same key is done once more under another name.

    A bounded number of rows is read for each operation, whatever their number.
    """
    effects = _by_name()
    for (operation,) in _ask(_SETTLED_NAMES):
        settled = Execution.objects.filter(operation=operation, settled_at__isnull=False).order_by("settled_at")
        rows = settled.values_list("pk", "provider", "tenant", "key", "binding")
        if operation not in effects:
            count, (_, provider, *_rest) = len(rows[: COUNTED + 1]), rows[0]
            yield _unknown(operation, min(count, COUNTED), provider, is_settled=True)
            continue
        effect = effects[operation]
        # the oldest ones were recorded under the older names
        read = {row[0]: row for row in (*rows[:READ], *rows.reverse()[:READ])}
        foreign = [pk for pk, _, tenant, key, it in read.values() if it != binding_of(tenant, effect.keyed_as, key)]
        if foreign:
            yield _foreign(effect, operation, len(foreign), foreign, is_settled=True)


def _ask(sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
    with journal().cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


def _by_name() -> dict[str, Effect[Any]]:
    return {name: effect for effect in registered() for name in (effect.operation, *effect.aliases)}


def _unknown_views() -> Iterator[Orphans]:
    for operation, count in _ask(_VIEWS):
        try:
            view = find_operation(operation)
        except Exception:  # noqa: BLE001, S112 - the project's URLs cannot be imported here: nobody can tell
            continue
        if view is None:
            yield Orphans(
                Trouble.UNKNOWN, operation, count,
                f"{count} unfinished requests are of the operation {operation!r}, which no view has any more: nothing "
                "can answer them.",
                f"Give the view its name back, @idempotent({operation!r}, …), until they have ended, or resolve them.",
            )  # fmt: skip


def _unknown(operation: str, count: int, provider: str, *, is_settled: bool = False) -> Orphans:
    candidates = [effect for effect in registered() if effect.provider == provider]
    aliases = candidates[0].aliases if len(candidates) == 1 else ()
    where = " or ".join(effect.operation for effect in candidates) or "the effect that took its place"
    line = f"If it got another name, write {_line(operation, aliases)} in {where}."
    if is_settled:
        return Orphans(
            Trouble.UNPROTECTED, operation, count,
            f"{count}{'+' if count == COUNTED else ''} settled executions are of the operation {operation!r}, which no "
            "effect has, as operation or alias: the same key under another name is done once more.",
            f"{line} If it is gone for good, silence this warning.",
        )  # fmt: skip
    return Orphans(
        Trouble.UNKNOWN, operation, count,
        f"{count} unsettled executions are of the operation {operation!r}, which no effect has, as operation or alias: "
        "nothing sends, looks up or settles them, and the same key under another name is done once more.",
        f"{line} If it is gone for good, run the older code until they are settled, or resolve them.",
    )  # fmt: skip


def _foreign(
    effect: Effect[Any], operation: str, count: int, rows: Sequence[UUID], *, is_settled: bool = False
) -> Orphans:
    keyed = _name_of(effect, rows)
    line = 'aliases = ("the earlier name", …)'
    if keyed is not None:
        line = _line(keyed, [name for name in effect.aliases if name != keyed])
    return Orphans(
        Trouble.UNPROTECTED if is_settled else Trouble.UNKNOWN, operation, count,
        f"{count} {'settled' if is_settled else 'unsettled'} executions of {operation!r} were keyed under "
        f"{repr(keyed) if keyed else 'another name'}, and new ones are keyed under {effect.keyed_as!r}: the same key "
        "does not find them, and is done once more.",
        f"The oldest name of an operation is the first of its aliases for ever. Write {line} in {effect.operation}.",
    )  # fmt: skip


def _name_of(effect: Effect[Any], rows: Sequence[UUID]) -> str | None:
    """Return the name that such rows were keyed under, if the effect or the journal still knows it."""
    kept = Execution.objects.filter(pk__in=rows).values_list("tenant", "key", "binding").first()
    if kept is None:
        return None
    tenant, key, binding = kept
    known = dict.fromkeys([*effect.aliases, effect.operation, *(name for (name,) in _ask(_SETTLED_NAMES))])
    return next((name for name in known if binding_of(tenant, name, key) == binding), None)


def _line(name: str, aliases: Sequence[str]) -> str:
    """Return the line that declares the name as the oldest alias."""
    names = ", ".join(f'"{one}"' for one in (name, *aliases))
    return f"aliases = ({names})" if aliases else f"aliases = ({names},)"


def _unreadable(effect: Effect[Any], group: _Group) -> Iterator[Orphans]:
    """Yield what of a group cannot be read: by its version, or since reading one of them raised."""
    yield from _unreadable_part(effect, group, "payload", group.payload_version, effect.payload_version)
    if group.output_version is not None:
        yield from _unreadable_part(effect, group, "output", group.output_version, effect.output_version)


def _unreadable_part(effect: Effect[Any], group: _Group, part: str, version: int, present: int) -> Iterator[Orphans]:
    article, upgrade = ("a", "upgrade") if part == "payload" else ("an", "upgrade_output")
    error = ""
    if version > present:
        why = f"was recorded by newer code, and this code reads {part}_version {present}"
        hint = "Run the newer code until they are settled."
    elif version < present and getattr(type(effect), upgrade) is getattr(Effect, upgrade):
        why = f"is older than {part}_version {present}, and nothing reads it"
        hint = f"Define {upgrade}(self, {part}, version) in {effect.operation}."
    elif error := _error_of(effect, group.oldest, part):
        why = f"cannot be read under {part}_version {present}"
        hint = f"Mend {upgrade}() of {effect.operation}, or the class of its {part}."
    else:
        return
    yield Orphans(
        Trouble.UNREADABLE, group.operation, group.count,
        f"{group.count} unsettled executions of {group.operation!r} have {article} {part} of version {version}, which "
        f"{why}.",
        hint, error,
    )  # fmt: skip


def _error_of(effect: Effect[Any], rows: Sequence[UUID], part: str) -> str:
    """Return what reading one of the rows raised, cleaned; empty where all of them can be read."""
    read = Execution.objects.filter(pk__in=rows).only("payload", "payload_version", "output", "output_version")
    try:
        for row in read:
            if part == "payload" and row.payload:
                effect.load(row.payload, row.payload_version)
            elif part == "output" and row.output is not None:
                effect.load_output(row.output, row.output_version)
    except Exception as error:  # noqa: BLE001 - the project's code
        return canonical.clean_error(error, 300)
    return ""
