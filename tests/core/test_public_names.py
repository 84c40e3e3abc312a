"""What `import effects` promises."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import effects

#: Frozen: a name that leaves this list breaks the projects that use it.
NAMES = """
Abandoned Absent Accepted Actor ActorError Applied ApprovalError ApprovalRule Authoritative AwaitingApproval
CapacityError CommitLostError CommitUnknownError Completed Conflict Context Declined Deduplication Doubt
DuplicatePerformError Effect EffectDefinitionError EffectsError Eventual Executing ExecutionNotFoundError
ExecutionState Failed FencedError Forbidden Found InDoubt InProgress Inconclusive InvalidRequest Item
JournalBesideError JournalIdError JournalNotMigratedError
JournalUnavailableError KeyRequiredError KeyReused Later LocalWriteError
MarkedForRollbackError NameUnusableError NeedsIntervention NobodyEntitledError NotEntitledError NotFinished NotNow
NotSent OpenTransactionError Outcome OutcomeError OutcomeUnrecordedError OutputUnavailableError Partial
PartiallyCompleted PayloadConflictError PayloadError PayloadUnreadableError Pending Permit PolicyChangedError Proceed
ProvenFailed Refuse Rejected RequestEndedError RequestState Retry Risk Secret SecretGoneError SecretNotKeptError Stale
StaleRevisionError Submitted Summary TooSoonError TroubleError Unauthenticated Uncertain UndeclaredEffectError
Unreachable WrongStateError aget aperform await_ cancel compensate current deny find get grant idempotent look_up_now
observe order_resend perform perform_later register reopen resolve sending supersede wait withdraw
""".split()  # noqa: SIM905 - as prose it can be read


def test_the_list_is_frozen():
    """Exactly these names are public."""
    assert sorted(NAMES) == sorted(effects.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there(name):
    """A public name can be imported, and says what it is."""
    value = getattr(effects, name)
    assert value.__doc__
    assert name in dir(effects)


def test_other_names_are_not():
    """A misspelt name is an AttributeError, as of any module."""
    with pytest.raises(AttributeError, match="'effects' has no attribute 'preform'"):
        effects.preform  # noqa: B018


def test_import_needs_no_settings():
    """`import effects` touches neither Django's settings nor its apps, so it works at the top of any module."""
    code = (
        "import sys, effects; effects.__version__; effects.Effect, effects.Declined, effects.Applied; "
        "from django.conf import settings; assert not settings.configured; "
        "assert 'effects.models' not in sys.modules and 'rest_framework' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_type_checkers_see_the_same_names_in_the_same_homes():
    """The imports under TYPE_CHECKING and the table of homes say the same."""
    tree = ast.parse(Path(effects.__file__).read_text())
    guarded = next(
        node for node in tree.body if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    )
    typed = {
        alias.asname: node.module.removeprefix("effects.")
        for node in guarded.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert typed == effects._HOME_OF


def test_homes_are_where_the_names_are_defined():
    """A name comes from the module that defines it, not from one that happens to import it."""
    for name, home in effects._HOME_OF.items():
        assert name in import_module(f"effects.{home}").__all__, (name, home)
