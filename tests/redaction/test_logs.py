"""Whatever comes from outside is one clean line in a log, wherever in the library it is logged."""

from __future__ import annotations

import ast
import importlib
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import effects
from effects.journal.logs import get_logger
from effects.runtime import operators
from effects.testing import provider_says, run_due, time_passes
from tests.core.declared import Charge, ChargePayload, Noted
from tests.redaction.declared import Wire, transfer

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("effects", "effects_admin")
#: Cleans nothing that it says, since its own functions are what records are cleaned with; it says names of types.
LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
UNCLEANED = "effects/journal/redaction.py"
CARD = "4111111111111111"
#: Ends a line for one reader or another; moves a terminal's cursor; turns the direction of what follows.
FORGED = f"no\nERROR effects 17 approved\r\x1b[2K\x0b\x0c\x85\u2028\u2029\u202e {CARD} \ud800\x00"
UNCLEAN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]|4111")


class Printed:
    """An object of a provider's library, which prints what it was sent."""

    def __str__(self) -> str:
        return FORGED

    __repr__ = __str__


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError(FORGED)

    __repr__ = __str__


class Text(str):
    """A text that shows more than it holds."""

    __slots__ = ()

    def __str__(self) -> str:
        return FORGED

    __repr__ = __str__


VALUES = [
    FORGED, FORGED.encode("utf-8", "surrogatepass"), Printed(), Unprintable(), Text("fine"), ValueError(FORGED),
    int(CARD), Decimal(CARD), float(CARD), {FORGED: FORGED}, {"number": int(CARD)}, [FORGED], (CARD, "\x1b"), 10**5000,
    FORGED * 10_000, None, True, timedelta(1),
]  # fmt: skip


class Records(logging.Handler):
    """Keeps what stands in a log file: first lines and the lines of tracebacks apart."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def check(self) -> None:
        assert self.records
        for record in self.records:
            message, *traceback = self.format(record).split("\n")
            assert not UNCLEAN.search(message), message
            assert len(message) < 20_000
            for line in traceback:
                assert not line or line.startswith("  "), line
                assert not UNCLEAN.search(line), line


@pytest.fixture
def logged() -> Iterator[Records]:
    """All that our loggers say."""
    handler, logger = Records(), logging.getLogger("effects")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture(autouse=True, params=["no redactor", "a redactor"])
def redacting(request: Any, redactor: Callable[..., None]) -> bool:
    """Where there is a redactor and where there is none."""
    if request.param == "a redactor":
        redactor(lambda text, place: text.replace("approved", "***"))
    return bool(request.param == "a redactor")


@pytest.mark.parametrize("form", ["%s", "%r", "%.80r"])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_one_clean_line(value: Any, form: str, logged: Records) -> None:
    """As it is, in what it is printed with, alone and beside others."""
    log = get_logger("effects.runner")
    log.error(form, value)
    log.error("%s is " + form, "refund", value)  # noqa: G003 - each form in turn
    log.error(value)
    logged.check()


def test_numbers_and_identifiers_stay_what_they_are(logged: Records) -> None:
    """A record is found by the id in it, also by the one in 200 whose digits pass for a card number."""
    log, ours = get_logger("effects.runner"), "4242424a-4242-4242-8242-424242424242"
    log.info("%s: %d of %.1f, %s, %r", ours, 3, 1.5, True, "a'b")
    assert logged.format(logged.records[0]) == f'{ours}: 3 of 1.5, True, "a\'b"'
    assert logged.records[0].msg == "%s: %d of %.1f, %s, %r", "error trackers group by it"


def test_a_traceback_is_indented_and_clean(logged: Records, redacting: bool) -> None:
    """With causes, notes and a syntax error's text; the exception itself stays for trackers if nothing is redacted."""
    log = get_logger("effects.runner")
    error = SyntaxError(FORGED, (FORGED, 1, 1, FORGED))
    error.__notes__ = [FORGED]  # type: ignore[attr-defined]
    for raised in (ValueError(FORGED), KeyError(FORGED), error, UnprintableError(), ExitStackError(FORGED)):
        try:
            try:
                raise raised
            except Exception as cause:
                raise RuntimeError(FORGED) from cause
        except RuntimeError:  # noqa: PERF203 - each is one record
            log.exception("It failed.")
    logged.check()
    assert all((record.exc_info is None) == redacting for record in logged.records)
    assert "  ValueError: no" in logged.format(logged.records[0])


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError(FORGED)


ExitStackError = type(FORGED.replace("\x00", "").replace("\ud800", ""), (Exception,), {})


# -- every call that logs ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """One place where the library logs."""

    file: str
    line: int
    level: str
    template: str
    keywords: tuple[str, ...]


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def calls() -> Iterator[Call]:
    for file, tree in modules():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            target = node.func.value
            if isinstance(target, ast.Name) and target.id == "log" and node.func.attr in LEVELS:
                template = node.args[0] if node.args else None
                assert isinstance(template, ast.Constant), f"{file}:{node.lineno}: the message is ours, as it stands"
                yield Call(
                    file, node.lineno, node.func.attr, str(template.value),
                    tuple(str(keyword.arg) for keyword in node.keywords),
                )  # fmt: skip


def test_loggers_come_from_one_place() -> None:
    """No module of the library has a logger that cleans nothing, and none gives a record more than its arguments."""
    found = []
    for file, tree in modules():
        for node in ast.walk(tree):
            name = getattr(node, "attr", getattr(node, "id", ""))
            if name in {"getLogger", "getChild", "LoggerAdapter", "lastResort"} or (
                isinstance(node, ast.ImportFrom) and node.module == "logging"
            ):
                found.append(file)
    # Celery's own loggers, of which records are dropped and to which nothing is written
    assert found == [*["effects/celery.py"] * 2, "effects/journal/logs.py", UNCLEANED]
    assert {name for call in calls() for name in call.keywords} <= {"exc_info"}


def test_every_message_stays_one_line_whatever_it_is_given(logged: Records) -> None:
    """Each call of the library is made as it stands, with hostile values for all that it fills in."""
    made = [call for call in calls() if call.file != UNCLEANED]
    assert len(made) > 40
    for call in made:
        log = importlib.import_module(call.file.removesuffix(".py").replace("/", ".")).log
        forms = re.findall(r"%[-.\d]*([a-z])", call.template)
        assert "%(" not in call.template, f"{call}: arguments are given one by one"
        for value in (FORGED, Printed(), {FORGED: FORGED}):
            with_error = {"exc_info": ValueError(FORGED)} if call.level == "exception" or call.keywords else {}
            getattr(log, call.level)(call.template, *(3 if form == "d" else value for form in forms), **with_error)
    assert len(logged.records) == 3 * len(made)
    logged.check()


# -- where they come from ------------------------------------------------------------------------------------------


def raising(*_arguments: Any) -> Any:
    raise LookupError(FORGED)


@pytest.mark.django_db(transaction=True)
def test_what_providers_and_hooks_say_is_clean(logged: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes, messages, references, verdicts, errors of hooks and look-ups, answers of the wrong type."""
    payload = ChargePayload("c1", 1)
    replies = [
        effects.Declined(FORGED, code=FORGED, reference=FORGED), effects.Doubt(FORGED, code=FORGED),
        effects.NotNow(FORGED, code=FORGED), ValueError(FORGED), Printed(), effects.Applied(Printed(), FORGED),
    ]  # fmt: skip
    monkeypatch.setattr(Noted, "then", staticmethod(raising))
    for number, reply in enumerate(replies):
        with provider_says(Noted, reply):
            effects.perform(Noted, payload=payload, key=f"k{number}", requested_by="ann")
    monkeypatch.setattr(Wire, "ready", staticmethod(raising))
    effects.perform(Wire, payload=transfer(), key="precondition")
    for number, verdict in enumerate([raising, Printed(), effects.Unreachable(FORGED), effects.Inconclusive(FORGED)]):
        with provider_says(Charge, TimeoutError(FORGED), look_up=verdict):
            operators.look_up_now(effects.perform(Charge, payload=payload, key=f"look-{number}").ref)
    time_passes(timedelta(hours=2))
    with provider_says(Charge, look_up=raising):
        run_due()
    logged.check()
    said = {record.msg for record in logged.records}
    assert {
        "%s %s: %s (%s)", "The look-up of %s %s raised.", "The precondition of %s %s raised; it is refused.",
        "The settled hook of %s %s failed; it stays due.",
    } <= said  # fmt: skip
