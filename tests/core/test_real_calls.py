"""A test that said nothing about a provider calls none, however its code gets there, and is told what to write."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.core import mail
from django.db import connection, connections
from django.test import utils

import effects
from effects.contrib.mail.effects import SendEmail
from effects.contrib.mail.message import Email
from effects.models import Attempt, Execution
from effects.runtime import test_runs
from effects.runtime.test_runs import ALLOWED, in_tests
from effects.sweeps import SWEEPS
from effects.testing import UnscriptedCallError, provider_says, real_calls, run_due, time_passes
from tests.core.declared import ChargePayload

pytestmark = pytest.mark.django_db(transaction=True)
PAYLOAD = ChargePayload("ann", 500)
ROOT = Path(__file__).resolve().parents[2]
#: What reached the provider.
called: list[str] = []


@effects.register
class Wired(effects.Effect[ChargePayload]):
    """Its provider is really called, as far as anyone can tell."""

    operation = "bank.wired"
    provider = "bank/acct_live"
    reversible = True
    lookup = effects.Authoritative()

    def send(self, context: Any, permit: Any) -> Any:
        called.append("send")
        return effects.Applied(reference="real")

    def compensate(self, context: Any, permit: Any) -> Any:
        called.append("compensate")
        return effects.Applied(reference="real")

    def verify(self, context: Any) -> Any:
        called.append("verify")
        return effects.Found("real")


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test suite like any host's: nothing is allowed unless a test says so."""
    monkeypatch.delenv(ALLOWED, raising=False)
    called.clear()
    yield
    called.clear()


def perform() -> Any:
    return effects.perform(Wired, payload=PAYLOAD, key="k1")


def later() -> Any:
    effects.perform_later(Wired, payload=PAYLOAD, key="k1")
    return run_due()


def in_a_thread() -> None:
    raised: list[UnscriptedCallError] = []

    def work() -> None:
        try:
            perform()
        except UnscriptedCallError as error:
            raised.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    raise raised[0]


def in_async_code() -> Any:
    async def work() -> Any:
        try:
            return await effects.aperform(Wired, payload=PAYLOAD, key="k1")
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(work())


def in_a_block_of_the_projects() -> None:
    with effects.sending(Wired, payload=PAYLOAD, key="k1") as block:
        called.append("sending")
        block.report(effects.Applied(reference="real"))


def behind_code_that_hides_errors() -> Any:
    try:
        return perform()
    except Exception:  # noqa: BLE001 - as projects write it
        return None


@pytest.mark.parametrize(
    "way", [perform, later, in_a_thread, in_async_code, in_a_block_of_the_projects, behind_code_that_hides_errors]
)
def test_an_effect_that_a_test_says_nothing_about_is_not_sent(untold: None, way: Callable[[], Any]) -> None:
    """Whichever way leads to the provider: nothing is called, nothing is in doubt, the test fails in words."""
    with pytest.raises(UnscriptedCallError, match=r"provider_says\(Wired.*effects_real_calls.*REAL_CALLS_IN_TESTS"):
        way()
    row = Execution.objects.get()
    assert (called, row.state, row.may_have_applied) == ([], "pending", False)
    assert Attempt.objects.get().outcome == "not_sent"


def test_an_undoing_is_not_sent_either(untold: None) -> None:
    """What `provider_says` said of the deed is over when its undoing is sent."""
    with provider_says(Wired, effects.Applied(reference="1")):
        done = perform()
    with pytest.raises(UnscriptedCallError, match=r"Wired\.compensate"):
        effects.compensate(done.ref)
    assert called == []
    undoing = Execution.objects.get(compensates__isnull=False)
    assert (undoing.state, undoing.may_have_applied) == ("pending", False)


def test_no_provider_is_asked_what_happened(untold: None) -> None:
    """A look-up reads a real account: it is refused, and the doubt stays what it was."""
    with provider_says(Wired, TimeoutError()):
        ref = perform().ref
    with pytest.raises(UnscriptedCallError, match=r"Wired\.verify.*look_up="):
        run_due()
    assert (called, effects.get(ref).state) == ([], "uncertain")
    time_passes(timedelta(minutes=10))
    with provider_says(Wired, look_up=effects.Found("1")):
        run_due()
    assert effects.get(ref).state == "completed"


def test_a_sweep_does_not_hide_it(untold: None) -> None:
    """A sweep goes on with its other rows whatever one raises, but not past this."""
    effects.perform_later(Wired, payload=PAYLOAD, key="k1")
    with pytest.raises(UnscriptedCallError):
        SWEEPS["run_due"].run_once()


@pytest.mark.parametrize("allowing", ["block", "decorator", "setting", "script"])
def test_a_test_that_says_so_calls(untold: None, settings: Any, allowing: str) -> None:
    """By a block, a decorator or the setting the provider is really called; by a script the script is."""
    if allowing == "block":
        with real_calls():
            perform()
    elif allowing == "decorator":
        real_calls()(perform)()
    elif allowing == "setting":
        settings.EFFECTS = {"REAL_CALLS_IN_TESTS": True}
        perform()
    else:
        with provider_says(Wired, effects.Applied(reference="said")):
            perform()
    assert called == ([] if allowing == "script" else ["send"])
    assert ALLOWED not in os.environ
    assert Execution.objects.get().state == "completed"


def test_a_mail_that_stays_in_the_outbox_is_sent(untold: None) -> None:
    """Django keeps it in this process, so that nobody has to allow it."""
    message = Email(to=("ann@example.com",), subject="s", text="t", sender="shop@example.com")
    assert effects.perform(SendEmail, payload=message, key="m1").state == "completed"
    assert len(mail.outbox) == 1


@pytest.mark.parametrize("pytest_says", ["PYTEST_VERSION", "PYTEST_CURRENT_TEST", None])
def test_a_test_run_is_recognised(monkeypatch: pytest.MonkeyPatch, pytest_says: str | None) -> None:
    """By what pytest leaves for child processes, or by what Django's runner has set up in this one."""
    for name in ("PYTEST_VERSION", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(name, raising=False)
    if pytest_says is None:
        # pytest-django has called Django's setup_test_environment()
        assert in_tests()
    monkeypatch.delattr(utils._TestState, "saved_data")
    assert not in_tests()
    if pytest_says is not None:
        monkeypatch.setenv(pytest_says, "1")
        assert in_tests()


def test_production_with_an_outbox_is_no_test_run(untold: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The in-memory mail backend makes `mail.outbox` in any process: that alone stops no payment."""
    for name in test_runs._PYTEST:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delattr(utils._TestState, "saved_data")
    mail.get_connection("django.core.mail.backends.locmem.EmailBackend")
    assert hasattr(mail, "outbox")
    assert perform().state == "completed"
    assert called == ["send"]


def run(command: list[str], directory: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


CHILD = """
import django
django.setup()
import effects
from tests.core.test_real_calls import PAYLOAD, Wired, called
try:
    effects.perform(Wired, payload=PAYLOAD, key="k1")
finally:
    print("called", called)
"""


def test_a_process_that_a_test_starts_calls_nobody(untold: None) -> None:
    """A worker in a child process would pay as well: it knows whose child it is."""
    address = connection.settings_dict
    url = f"postgres://{address['USER']}:{address['PASSWORD']}@{address['HOST']}:{address['PORT']}/{address['NAME']}"
    environment = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": django_settings.SETTINGS_MODULE}
    ran = run([sys.executable, "-c", CHILD], ROOT, environment)
    assert (ran.returncode, ran.stdout.strip()) == (1, "called []"), ran.stderr
    assert "UnscriptedCallError" in ran.stderr


MARKED = """
import pytest
from effects.runtime.test_runs import UnscriptedCallError, refuse_real_call
from effects.contrib.mail.effects import SendEmail
from effects.declarations.effect import get_effect

@pytest.fixture
def call(settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
    settings.MAILERS = {"default": {"BACKEND": settings.EMAIL_BACKEND}}
    return lambda: refuse_real_call(get_effect(SendEmail), "send")

@pytest.mark.effects_real_calls
def test_marked(call):
    call()

def test_unmarked(call):
    with pytest.raises(UnscriptedCallError):
        call()
"""


def test_the_mark_allows_one_test(untold: None, tmp_path: Path) -> None:
    """Its neighbours in the same session stay as they are."""
    (tmp_path / "test_marked.py").write_text(MARKED)
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "--rootdir", str(tmp_path), "-c", os.devnull]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        "DJANGO_SETTINGS_MODULE": django_settings.SETTINGS_MODULE, "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    # as its entry point loads it where the package is installed
    command += ["-p", "no:cacheprovider", "-p", "effects.testing.plugin", str(tmp_path)]
    ran = run(command, tmp_path, environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout
