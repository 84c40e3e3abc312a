"""The reference pages and the code say the same."""

import ast
import inspect
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.management import find_commands, load_command_class
from django.core.management.base import BaseCommand
from rest_framework.throttling import BaseThrottle

import effects
from effects import celery, conf, tasks, testing
from effects.declarations.effect import Effect
from effects.http import answers, drf
from effects.http.api import urls as api_urls
from effects.http.api.problems import API_CODES
from effects.http.api.serializers import ApprovalSerializer, ProposalSerializer
from effects.http.decorators import idempotent
from effects.http.problems import CODES, type_url
from effects.inspection.audit import CODES as AUDIT_CODES
from effects.inspection.checks import journal, messages, package, projects, recorded, rules, views
from effects.testing import faults
from effects.testing.probe import PROBES
from effects.vocabulary import exceptions, states
from effects_admin import inlines, permissions
from effects_admin.verbs import EXECUTION_VERBS, REQUEST_VERBS
from tests.docs.blocks import ROOT
from tests.docs.diagrams import PAGE, write

REFERENCE = ROOT / "docs" / "reference"
SOURCE = ROOT / "effects"
UNUSED = "Accepted and checked. This release does nothing with it."
CHECKS = (inlines, journal, package, projects, recorded, rules, views)


def read(name: str) -> str:
    """Return a reference page's text."""
    return (REFERENCE / f"{name}.md").read_text(encoding="utf-8")


def sections(page: str, level: str = "###") -> dict[str, str]:
    """Return a page's sections by their heading, markup taken off."""
    parts = re.split(rf"^{level} (.+)$", read(page), flags=re.MULTILINE)
    return {re.sub(r"<a [^>]*></a>|`", "", name): text for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def rows(text: str) -> list[list[str]]:
    """Return the cells of all table rows of a text, headers left out."""
    found = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in found]
    return [row for number, row in enumerate(cells) if not _is_header(cells, number)]


def _is_header(cells: list[list[str]], number: int) -> bool:
    """Tell whether a row is a rule, or stands above one."""

    def is_rule(index: int) -> bool:
        return index < len(cells) and all(re.fullmatch(r":?-+:?", cell) for cell in cells[index])

    return is_rule(number) or is_rule(number + 1)


def entries(page: str) -> list[str]:
    """Return the headings in backticks, and the first cells of the tables whose first column is called "name"."""
    text = read(page)
    tables = re.findall(r"^\| name \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    cells = [row[0] for table in tables for row in rows(table)]
    headings = re.findall(r"^### (`.+`)$", text, re.MULTILINE)
    return [entry.strip("`") for entry in (*headings, *cells)]


def words(cell: str) -> set[str]:
    """Return the words in backticks."""
    return set(re.findall(r"`([^`]+)`", cell))


# -- settings ---------------------------------------------------------------------------------------------------------


def test_every_setting_is_on_its_page_in_order():
    """The page has each key of EFFECTS once, in the order of the code."""
    assert list(sections("settings")) == list(conf.SETTINGS)


@pytest.mark.parametrize("name", conf.SETTINGS)
def test_a_setting_has_its_type_default_and_sentence(name: str):
    """Type, default and first sentence are those of the code."""
    setting, text = conf.SETTINGS[name], sections("settings")[name]
    kind, default = re.search(r"^\*(.+), default `(.+)`\*$", text, re.MULTILINE).groups()
    assert kind == setting.type
    assert eval(default, {"timedelta": timedelta}) == setting.default  # the page writes it as users do
    assert setting.doc in text


@pytest.mark.parametrize("name", conf.SETTINGS)
def test_a_setting_that_nothing_reads_is_said_to_do_nothing(name: str):
    """A key that the library accepts and never reads is not sold as one that works."""
    pattern = re.compile(rf"settings\.{name}\b|_SETTINGS\[.{name}.\]")
    read_by = [path for path in SOURCE.rglob("*.py") if path.parent.name != "conf" and pattern.search(path.read_text())]
    assert (UNUSED in sections("settings")[name]) == (not read_by), f"read by {read_by}"


# -- checks and problems ----------------------------------------------------------------------------------------------


def test_every_check_is_on_its_page():
    """The page has the ids that the code can raise, each under the anchor that its hint links to."""
    ids = {name for module in CHECKS for name in re.findall(r"\b[EW]\d{3}\b", inspect.getsource(module))}
    assert set(sections("checks")) == {f"effects.{name}" for name in ids}
    for name in ids:
        anchor = messages.link(name).rpartition("#")[2]
        assert f'<a id="{anchor}"></a>effects.{name}' in read("checks")


def test_every_problem_is_on_its_page():
    """The page has the codes of the table, in its order."""
    assert list(sections("problems")) == list(CODES)


@pytest.mark.parametrize("code", CODES)
def test_a_problem_has_its_anchor_and_status(code: str):
    """A problem's type URL leads to a section that begins with its status, and says where Retry-After comes along."""
    kind = CODES[code]
    assert f'<a id="{kind.anchor}"></a>`{code}`' in read("problems")
    first = sections("problems")[code].strip().partition(". ")[0]
    assert f"Status {kind.status}" in first
    assert ("Retry-After" in first) == (kind.retry_after is not None)


# -- the API ----------------------------------------------------------------------------------------------------------


def test_every_problem_of_the_api_is_on_its_page():
    """The codes of the table, in its order, each under the anchor of its type and with its status."""
    page = sections("api")
    assert list(page) == list(API_CODES)
    for code, kind in API_CODES.items():
        assert type_url(kind).endswith(f"/reference/api/#{kind.anchor}")
        assert f'<a id="{kind.anchor}"></a>`{code}`' in read("api")
        assert page[code].strip().startswith(f"Status {kind.status}")


def test_every_address_of_the_api_is_on_its_page():
    """The addresses of its URLs, in order."""
    shown = [row[0].strip("`") for row in rows(sections("api", "##")["Addresses"])]
    assert shown == [re.sub(r"<\w+:", "<", str(pattern.pattern)) for pattern in api_urls.urlpatterns]


@pytest.mark.parametrize(
    ("heading", "serializer"), [("A proposal", ProposalSerializer), ("An approval", ApprovalSerializer)]
)
def test_every_member_of_an_answer_of_the_api_is_explained(heading: str, serializer: Any):
    """The table has each field, in order or not."""
    shown = [word for row in rows(sections("api", "##")[heading]) for word in words(row[0])]
    assert sorted(shown) == sorted(serializer().fields)


# -- states -----------------------------------------------------------------------------------------------------------


def test_the_diagrams_are_those_of_the_tables():
    """`python -m tests.docs.diagrams` would change nothing."""
    page = PAGE.read_text(encoding="utf-8")
    assert write(page) == page


@pytest.mark.parametrize(
    ("heading", "edges", "everything"),
    [
        ("Verbs of executions", states.EXECUTION_EDGES, frozenset(states.ExecutionState)),
        ("Verbs of requests", states.REQUEST_EDGES, frozenset()),
    ],
)
def test_every_verb_is_in_its_table(heading: str, edges: dict, everything: frozenset):
    """Verb, from and to are those of the state machine; each row says when."""
    shown = rows(sections("states")[heading])
    assert [row[0].strip("`") for row in shown] == list(edges)
    for verb, sources, targets, when in shown:
        edge = edges[verb.strip("`")]
        expected = {"any"} if sources == "any" else {str(word) for word in edge.sources}
        assert (words(sources) or {"any"} & {sources}) == expected or edge.sources == frozenset()
        assert (sources == "any") == (edge.sources == everything != frozenset())
        assert words(targets) == {str(word) for word in edge.targets}
        assert targets.endswith("same") == bool(edge.keeps)
        assert when


@pytest.mark.parametrize(
    ("heading", "level", "kind"),
    [
        ("Executions", "##", states.ExecutionState),
        ("Requests", "##", states.RequestState),
        ("Attempts", "##", states.AttemptOutcome),
        ("Approvals", "##", states.ApprovalState),
        ("Reasons of executions", "###", states.ExecutionReason),
        ("Reasons of requests", "###", states.RequestReason),
    ],
)
def test_every_state_and_reason_is_explained(heading: str, level: str, kind: type):
    """The first table under the heading has each word once."""
    table = re.search(r"(?:^\|.*\n)+", sections("states", level)[heading], re.MULTILINE)[0]
    shown = [row[0].strip("`") for row in rows(table)]
    assert sorted(shown) == sorted(str(word) for word in kind if str(word))


# -- Python -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", effects.__all__)
def test_every_public_name_has_one_entry(name: str):
    """A name of `effects` is a heading, or a row of a table of names, once in all reference pages."""
    found = [page for page in ("effects", "http") for entry in entries(page) if entry.partition("(")[0] == name]
    assert len(found) == 1, found


def test_the_errors_stand_with_their_bases_and_codes():
    """The table of errors has each error once, with the classes that it inherits from and its code."""
    table = {row[0].strip("`"): row for row in rows(sections("effects")["Errors"])}
    for name in exceptions.__all__:
        error = getattr(exceptions, name)
        assert words(table[name][1]) == {base.__name__ for base in error.__bases__}
        assert table[name][2] == (f"`{error.code}`" if isinstance(error.code, str) else "of its outcome")


def test_every_attribute_and_method_of_an_effect_is_explained():
    """The tables of `Effect` have its attributes and methods."""
    shown = {row[0].strip("`").partition("(")[0] for row in rows(sections("effects")["Effect"])}
    attributes = {name for name in inspect.get_annotations(Effect) if name != "payload_type"}
    internal = {"read", "load", "load_output", "contract"}
    methods = {name for name, it in vars(Effect).items() if inspect.isfunction(it) and not name.startswith("_")}
    assert shown == attributes | (methods - internal)


@pytest.mark.parametrize(
    ("page", "name", "target"),
    [
        ("effects", name, getattr(effects, name))
        for name in (
            "Eventual", "Authoritative", "Retry", "ApprovalRule", "Summary", "Applied", "Submitted", "Partial", "Item",
            "Found", "Absent", "ProvenFailed", "InProgress", "Inconclusive", "Unreachable", "Conflict", "Proceed",
            "Refuse", "Later", "get", "wait", "compensate", "supersede", "grant", "deny", "withdraw", "cancel",
            "observe", "find",
        )
    ]
    + [("testing", name, getattr(testing, name)) for name in ("provider_says", "time_passes", "assert_performed")],
)  # fmt: skip
def test_a_signature_is_the_one_of_the_code(page: str, name: str, target: object):
    """Parameters and defaults that a row shows are those that the code takes."""
    (shown,) = (entry.removeprefix(name) for entry in entries(page) if entry.startswith(f"{name}("))
    function = ast.parse(f"def {name}{shown}: ...").body[0]
    names = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
    actual = inspect.signature(target).parameters
    assert [n for n, it in actual.items() if it.kind is not inspect.Parameter.VAR_POSITIONAL] == names


def test_every_parameter_of_the_decorator_is_explained():
    """The table of `idempotent` has its parameters, in order."""
    shown = [row[0].strip("`") for row in rows(sections("http")["idempotent"])]
    assert shown == list(inspect.signature(idempotent).parameters)


def test_the_decorators_table_of_situations_knows_every_problem():
    """Each code of a protected view is reached by some situation."""
    assert set(re.findall(r"problems\.md#([\w-]+)", read("http"))) == {kind.anchor for kind in CODES.values()}


def test_every_header_is_on_its_page():
    """The table has the headers that the code sends and reads by a name of its own."""
    shown = {row[0].strip("`") for row in rows(sections("http", "##")["Headers"])}
    assert {conf.SETTINGS["KEY_HEADER"].default, answers.REPLAYED, answers.STATUS, *views.EXPOSED} <= shown


def test_every_throttle_is_on_the_page():
    """The table has the throttles that projects put on their views."""
    shown = {row[0].strip("`") for row in rows(sections("http", "##")["Quotas"])}
    public = {name: getattr(drf, name) for name in drf.__all__}
    assert shown == {name for name, it in public.items() if isinstance(it, type) and issubclass(it, BaseThrottle)}


def test_every_setting_of_protected_views_is_linked():
    """The page leads to the settings that only HTTP has."""
    assert {"replay_check", "replay_headers", "not_executed", "max_open_per_tenant", "max_in_doubt_per_tenant"} <= set(
        re.findall(r"settings\.md#(\w+)", read("http"))
    )


# -- Celery, console, test kit ----------------------------------------------------------------------------------------


def test_every_task_and_beat_entry_is_on_the_page():
    """Task names, and the schedule with its periods."""
    page = read("celery")
    names = {f"effects.{name}" for name in tasks.__all__}
    assert {row[0].strip("`") for row in rows(page) if row[0].startswith("`effects.")} == names
    shown = {row[0].strip("`"): row[1:] for row in rows(page) if row[0].startswith("`effects-")}
    units = {"s": 1, "min": 60}
    periods = {entry: int(time.split()[0]) * units[time.split()[1]] for entry, (time, _) in shown.items()}
    told = {entry: (periods[entry], words(names)) for entry, (_, names) in shown.items()}
    schedule = celery.beat_schedule()
    assert told == {name: (it["schedule"].total_seconds(), {*it["args"][0]}) for name, it in schedule.items()}


def test_every_verb_of_the_console_has_its_address():
    """The table of pages names the verbs by the last part of their address."""
    shown = re.search(r"^\| a verb \| (.+) \|$", read("admin"), re.MULTILINE)[1]
    of_executions, of_requests = shown.split(";")
    for part, verbs in ((of_executions, EXECUTION_VERBS), (of_requests, REQUEST_VERBS)):
        assert {word.rstrip("/").rpartition("/")[2] for word in words(part)} == {verb.name for verb in verbs}


@pytest.mark.django_db
def test_every_permission_that_the_console_asks_for_is_named():
    """The page names permissions that exist, and all that the console knows."""
    shown = set(re.findall(r"`(effects\.\w+)`", read("admin")))
    asked = {value for name, value in vars(permissions).items() if name.isupper() and isinstance(value, str)}
    exist = {f"effects.{codename}" for codename in Permission.objects.values_list("codename", flat=True)}
    assert asked <= shown <= exist


@pytest.mark.parametrize("name", sorted(find_commands(str(SOURCE / "management"))))
def test_every_option_of_a_command_is_explained(name: str):
    """A command's table has the options that it adds."""
    shown = {word for row in rows(sections("commands")[name]) for word in words(row[0]) if word not in AUDIT_CODES}
    parser = load_command_class("effects", name).create_parser("manage.py", name)
    plain = BaseCommand().create_parser("manage.py", "")

    def options(of: Any) -> set[str]:
        return {(action.option_strings or [action.dest])[-1] for action in of._actions}

    assert shown == options(parser) - options(plain)


def test_every_finding_of_the_audit_is_explained():
    """The table has the audit's codes, in order, with their meaning."""
    found = {row[0].strip("`"): row[1] for row in rows(sections("commands")["effects_audit"])}
    assert {code: found.get(code) for code in AUDIT_CODES} == {code: it.meaning for code, it in AUDIT_CODES.items()}


def test_every_name_of_the_test_kit_is_explained():
    """The tables have the public names of `effects.testing` and of its faults."""
    shown = {entry.partition("(")[0] for entry in entries("testing")}
    assert shown == {*testing.__all__, *faults.__all__}


def test_every_parameter_and_probe_of_the_probe_is_explained():
    """The tables have the parameters, in order, and the probes."""
    parameters, probes = (
        [row[0].strip("`") for row in rows(part)]
        for part in re.findall(r"(?:^\|.*\n)+", sections("testing", "##")["The probe"], re.MULTILINE)
    )
    assert parameters == list(inspect.signature(testing.idempotency_probe).parameters)
    assert probes == list(PROBES)


def test_every_reference_page_is_compared_here():
    """A new reference page needs a test that holds it to the code."""
    compared = {
        "admin",
        "api",
        "celery",
        "checks",
        "commands",
        "effects",
        "http",
        "problems",
        "settings",
        "states",
        "testing",
    }
    assert {Path(page).stem for page in REFERENCE.glob("*.md")} == compared
