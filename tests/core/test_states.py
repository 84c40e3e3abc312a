"""The tables of the state machines, against themselves and against the code that walks along them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import effects
from effects.models import Approval, Attempt, Execution, Request
from effects.vocabulary import states
from effects.vocabulary.states import (
    EXECUTION_EDGES,
    EXECUTION_IN_DOUBT,
    EXECUTION_OPEN,
    EXECUTION_SETTLED,
    NOTHING_HAPPENED,
    REQUEST_EDGES,
    REQUEST_ENDED,
    ApprovalState,
    AttemptOutcome,
    Edge,
    ExecutionReason,
    ExecutionState,
    RequestReason,
    RequestState,
)

PACKAGE = Path(effects.__file__).parent
TRANSITIONS = PACKAGE / "transitions"
MACHINES = [
    pytest.param(REQUEST_EDGES, RequestState, id="request"),
    pytest.param(EXECUTION_EDGES, ExecutionState, id="execution"),
]
#: Changes nothing that anybody could read in a receipt: the lease of a running request moves forward.
WITHOUT_RECEIPT = {"renew"}


def trees(folder: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield path.relative_to(PACKAGE), ast.parse(path.read_text())


def calls(tree: ast.Module, *names: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if not names or called in names:
                yield node


def words(node: ast.AST) -> set[str]:
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)}


@pytest.mark.parametrize(("edges", "machine"), MACHINES)
def test_every_state_is_reachable(edges: dict[str, Edge], machine):
    """From the states that creating verbs make, every other one can be reached."""
    reached = {target for edge in edges.values() if not edge.sources for target in edge.targets}
    while more := {
        target for edge in edges.values() if edge.sources & reached for target in edge.targets if target not in reached
    }:
        reached |= more
    assert reached == set(machine)


@pytest.mark.parametrize(("edges", "machine"), MACHINES)
def test_every_edge_stays_within_its_machine(edges: dict[str, Edge], machine):
    """Sources and targets are states of the machine, and every verb leads somewhere."""
    for verb, edge in edges.items():
        assert edge.sources | edge.targets <= set(machine), verb
        assert edge.targets or edge.keeps, verb


def test_what_ended_is_left_by_no_edge():
    """An ended request is history; retention leaves its state."""
    assert not any(edge.targets and edge.sources & REQUEST_ENDED for edge in REQUEST_EDGES.values())


def test_only_evidence_leaves_a_settled_execution():
    """Settled is left by contradict alone; join, observe, supersede, run_hook and end_hook keep it."""
    leaving = {verb for verb, edge in EXECUTION_EDGES.items() if edge.sources & EXECUTION_SETTLED and edge.targets}
    assert leaving == {"contradict"}


def test_executing_is_entered_by_permits_alone():
    """A permit, or a resend, which is one, is the only way to a send."""
    entering = {verb for verb, edge in EXECUTION_EDGES.items() if ExecutionState.EXECUTING in edge.targets}
    assert entering == {"permit", "resend"}


def test_open_in_doubt_and_settled_share_no_state_and_leave_none_out():
    """Every state is exactly one of the three."""
    groups = (EXECUTION_OPEN, EXECUTION_IN_DOUBT, EXECUTION_SETTLED)
    assert sum(len(group) for group in groups) == len(ExecutionState)
    assert frozenset().union(*groups) == set(ExecutionState)


def test_what_says_that_nothing_happened_is_never_in_doubt():
    """No state says both."""
    assert NOTHING_HAPPENED.isdisjoint(EXECUTION_IN_DOUBT)
    assert NOTHING_HAPPENED.isdisjoint({ExecutionState.COMPLETED, ExecutionState.PARTIALLY_COMPLETED})
    assert ExecutionState.ABANDONED not in NOTHING_HAPPENED


def test_doubt_becomes_nothing_happened_by_evidence_alone():
    """From doubt to "it did not happen" only a look-up's proof or a person leads."""
    edges = EXECUTION_EDGES.items()
    clearing = {
        verb
        for verb, edge in edges
        if any(edge.leads(source) & NOTHING_HAPPENED for source in edge.sources & EXECUTION_IN_DOUBT)
    }
    assert clearing == {"confirm_failure", "confirm_absence", "resolve"}


@pytest.mark.parametrize("verb", ["request_approval", "grant", "deny", "expire", "withdraw", "lapse"])
def test_votes_about_a_resend_keep_the_doubt(verb):
    """An approval of another send changes nothing about what it is for: the approval alone moves."""
    assert EXECUTION_EDGES[verb].leads(ExecutionState.NEEDS_INTERVENTION) == {ExecutionState.NEEDS_INTERVENTION}


def test_every_verb_writes_a_receipt_somewhere():
    """Each verb of the tables is named in a call that writes a receipt, and no other verb is."""
    said: set[str] = set()
    for _, tree in trees(TRANSITIONS):
        for node in ast.walk(tree):
            said |= words(node) if isinstance(node, (ast.Call, ast.Dict)) else set()
    assert (set(EXECUTION_EDGES) | set(REQUEST_EDGES)) - said == WITHOUT_RECEIPT


def test_advance_is_told_verbs_of_its_table():
    """A verb that is misspelt would be a KeyError in production, so it fails here."""
    for name, edges in (("advance", EXECUTION_EDGES), ("advance_request", REQUEST_EDGES)):
        told = [
            (path, argument.value)
            for path, tree in trees(TRANSITIONS)
            for call in calls(tree, name)
            for argument in call.args[1:2]
            if isinstance(argument, ast.Constant)
        ]
        assert told, name
        assert [entry for entry in told if entry[1] not in edges] == []


def test_only_transitions_write_state():
    """Outside of `effects.transitions` and the models' own definitions nothing assigns or updates a state."""
    writers = []
    for path, tree in trees(PACKAGE):
        if path.parts[0] in ("transitions", "models", "migrations"):
            continue
        writers += [path for call in calls(tree, "update", "create") for key in call.keywords if key.arg == "state"]
        for node in ast.walk(tree):
            targets = node.targets if isinstance(node, ast.Assign) else []
            writers += [path for each in targets if isinstance(each, ast.Attribute) and each.attr == "state"]
    assert writers == []


def test_only_locks_lock():
    """`select_for_update`, FOR UPDATE and advisory locks have one home, and `_opening`'s statement."""
    lockers = set()
    for path, tree in trees(PACKAGE):
        lockers |= {path.as_posix() for _ in calls(tree, "select_for_update")}
        locking = re.compile(r"FROM .* FOR (NO KEY )?UPDATE|[{}%a-z_ ]FOR NO KEY UPDATE\)|advisory_xact_lock\(")
        lockers |= {path.as_posix()} if any(map(locking.search, words(tree))) else set()
    assert lockers == {"journal/locks.py", "transitions/_opening.py"}


@pytest.mark.parametrize(
    ("model", "field", "machine"),
    [
        (Execution, "state", ExecutionState),
        (Execution, "reason", ExecutionReason),
        (Request, "state", RequestState),
        (Request, "reason", RequestReason),
        (Attempt, "outcome", AttemptOutcome),
        (Approval, "state", ApprovalState),
    ],
)
def test_columns_hold_exactly_the_words_of_their_enum(model, field, machine):
    """The column's choices and its CHECK constraint are made from the enum."""
    expected = [str(word) for word in machine]
    assert [value for value, _ in model._meta.get_field(field).choices] == expected
    listed = [
        dict(constraint.condition.children)[f"{field}__in"]
        for constraint in model._meta.constraints
        if constraint.name.endswith(f"_{field}") and hasattr(constraint, "condition")
    ]
    assert listed == [expected]


def test_words_are_their_values():
    """A word compares, prints and hashes as what is stored."""
    assert ExecutionState.PENDING == "pending"
    assert str(ExecutionState.PENDING) == f"{ExecutionState.PENDING}" == "pending"
    assert "pending" in states.EXECUTION_OPEN
