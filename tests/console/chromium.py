"""A real browser, and people who sit at it.

Playwright's synchronous API runs an event loop in its thread, and Django's ORM refuses to work beside one. So the
browser lives in a thread of its own, and a test that reads the journal between two clicks stays in pytest's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

__all__ = ["ABOUT_COLOURS", "PHONE", "Chromium", "Person", "executable"]

T = TypeVar("T")
Scheme = Literal["light", "dark"]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Nothing but the pages: no updates, no metrics, no first run. Containers run as root and have a small /dev/shm.
ARGUMENTS = [
    "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--disable-sync", "--disable-default-apps", "--no-first-run", "--metrics-recording-only",
]  # fmt: skip
DESK, PHONE = (1280, 900), (360, 740)
#: What axe calls these keeps somebody out; `moderate` and `minor` are matters of taste in Django's own pages too.
GRAVE = ("serious", "critical")
#: The rules that a scheme can break.
ABOUT_COLOURS = ("color-contrast", "link-in-text-block")
#: A list's rows are alike after the first ones.
ALL_BUT_REPEATED = {"exclude": ["#result_list tbody tr:nth-child(n + 6)"]}
PATIENCE = 10_000.0


def executable() -> str:
    """Return where a Chromium is; empty if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), "")


class Chromium:
    """The browser, started once for a run of tests."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chromium")
        self._playwright, self._browser = self.run(self._start)
        self._axe = Axe()

    def run(self, call: Callable[[], T]) -> T:
        """Do something in the browser's thread."""
        return self._thread.submit(call).result()

    def stop(self) -> None:
        """End it."""

        def end() -> None:
            self._browser.close()
            self._playwright.stop()

        self.run(end)
        self._thread.shutdown()

    def seat(
        self, address: str, user: User | None, *, size: tuple[int, int] = DESK, scheme: Scheme = "light",
        scripts: bool = True,
    ) -> Person:  # fmt: skip
        """Give somebody a window of their own, logged in if `user` is given."""
        cookies = _cookies(address, user) if user else []

        def open_window() -> Page:
            context = self._browser.new_context(
                viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, java_script_enabled=scripts,
                base_url=address, reduced_motion="reduce", locale="en-GB",
            )  # fmt: skip
            context.set_default_timeout(PATIENCE)
            context.add_cookies(cookies)  # type: ignore[arg-type]
            return context.new_page()

        return Person(self, self.run(open_window), address, self._axe)

    def _start(self) -> tuple[Playwright, Browser]:
        playwright = sync_playwright().start()
        return playwright, playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)


class Person:
    """Somebody at a window: what they see, press and type. Whatever a page does wrong by itself is kept."""

    def __init__(self, chromium: Chromium, page: Page, address: str, axe: Axe) -> None:
        self._run, self._page, self._address, self._axe = chromium.run, page, address, axe
        self.status = 0
        self.faults: list[str] = []
        self._run(self._listen)

    def _listen(self) -> None:
        self._page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self._page.on("requestfailed", lambda request: self.faults.append(f"failed: {request.url}"))
        self._page.on("request", lambda request: self._refuse_foreign(request.url))
        self._page.on("response", self._note)

    def _refuse_foreign(self, url: str) -> None:
        if not url.startswith((self._address, "data:")):
            self.faults.append(f"foreign: {url}")

    def _note(self, response: Any) -> None:
        if response.request.is_navigation_request():
            self.status = response.status
        elif response.status >= 400 and not response.url.endswith("/favicon.ico"):  # the browser's own wish
            self.faults.append(f"{response.status}: {response.url}")

    def opens(self, path: str) -> Person:
        """Open an address; return the person, so that what they see can be asked at once."""
        self._run(lambda: self._page.goto(path))
        return self

    @property
    def text(self) -> str:
        """What they read, on one line."""
        return " ".join(str(self._run(lambda: self._page.inner_text("body"))).split())

    @property
    def title(self) -> str:
        """The window's title."""
        return self._run(self._page.title)

    @property
    def path(self) -> str:
        """Where they are."""
        return urlsplit(self._run(lambda: self._page.url)).path

    def sees(self, selector: str) -> int:
        """Return how many of something there are on the page."""
        return self._run(lambda: self._page.locator(selector).count())

    def clicks(self, name: str, role: Any = "link", *, within: str = "body") -> Person:
        """Click a link or a button by its name, and wait for what it leads to."""

        def click() -> None:
            with self._page.expect_navigation():
                self._page.locator(within).get_by_role(role, name=name, exact=True).first.click()

        self._run(click)
        return self

    def types(self, label: str, text: str) -> Person:
        """Fill in a field by its label."""
        self._run(lambda: self._page.get_by_label(label).fill(text))
        return self

    def ticks(self, label: str) -> Person:
        """Choose a radio button or tick a box, by its label or the beginning of it."""
        self._run(self._page.get_by_label(label).first.check)
        return self

    def presses(self, *keys: str) -> Person:
        """Press keys, one after the other."""
        for key in keys:
            self._run(lambda key=key: self._page.keyboard.press(key))  # type: ignore[misc]
        return self

    def writes(self, text: str) -> Person:
        """Type text into what has the focus."""
        self._run(lambda: self._page.keyboard.type(text))
        return self

    def tabs_to(self, name: str, limit: int = 120) -> Person:
        """Go with the tabulator to something by its accessible name, whose focus has to be visible."""
        for _ in range(limit):
            self.presses("Tab")
            said, outlined = self._run(lambda: self._page.evaluate(_FOCUSED))
            if said == name:
                assert outlined, f"the focus on {name!r} cannot be seen"
                return self
        raise AssertionError(f"{name!r} is not reached by the tabulator in {limit} steps on {self.path}")

    def enters(self, key: str = "Enter") -> Person:
        """Press a key that leads to another page, and wait for it."""

        def press() -> None:
            with self._page.expect_navigation():
                self._page.keyboard.press(key)

        self._run(press)
        return self

    def evaluates(self, script: str) -> Any:
        """Run a script on the page: what an attacker with the developer's tools does."""
        return self._run(lambda: self._page.evaluate(script))

    def posts(self, path: str, data: dict[str, Any]) -> int:
        """Send a form to an address from the page they are on, with its token; return the answer's status."""
        script = """async ([path, data]) => {
          const token = document.querySelector('[name=csrfmiddlewaretoken]').value;
          const body = new URLSearchParams({...data, csrfmiddlewaretoken: token});
          return (await fetch(path, {method: 'POST', body, redirect: 'manual'})).status;
        }"""
        status = int(self._run(lambda: self._page.evaluate(script, [path, data])))
        self.faults = [fault for fault in self.faults if not fault.startswith(f"{status}:")]  # it was provoked
        return status

    def submits_after(self, script: str) -> Person:
        """Run a script that sends a form, and wait for the answer."""

        def send() -> None:
            with self._page.expect_navigation():
                self._page.evaluate(script)

        self._run(send)
        return self

    def prefers(self, scheme: Scheme) -> Person:
        """Change the system's colour scheme."""
        self._run(lambda: self._page.emulate_media(color_scheme=scheme))
        return self

    def barriers(self, *rules: str) -> list[str]:
        """Return what axe-core finds that keeps somebody out, by all of its rules or by these."""
        # without preload: it fetches what style sheets import from beside the page
        options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
        if rules:
            options["runOnly"] = {"type": "rule", "values": list(rules)}
        # Django's links change their colour gradually
        self.evaluates("Promise.all(document.getAnimations().map(each => each.finished))")
        found = self._run(lambda: self._look(options))["violations"]
        return [
            f"{each['id']}: {node['target']} {node.get('failureSummary', '')}"
            for each in found
            if each["impact"] in GRAVE
            for node in each["nodes"]
        ]

    def _look(self, options: dict[str, Any]) -> Any:
        if not self._page.evaluate("'axe' in window"):
            self._page.evaluate(self._axe.axe_script)
        return self._page.evaluate("([place, options]) => axe.run(place, options)", [ALL_BUT_REPEATED, options])

    def overflows(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return int(self.evaluates("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def photographs(self, path: Path, *, whole: bool = True) -> Person:
        """Keep a picture of the page, or of what the window shows of it."""
        self._run(lambda: self._page.screenshot(path=path, full_page=whole))
        return self

    def leaves(self) -> None:
        """Close the window."""
        self._run(self._page.context.close)


#: The name of what has the focus, and whether something shows that it has it.
_FOCUSED = """() => {
  const it = document.activeElement, style = getComputedStyle(it);
  const label = it.labels && it.labels.length ? it.labels[0].innerText : '';
  const name = it.getAttribute('aria-label') || label || it.value || it.innerText || '';
  const shown = style.outlineStyle !== 'none' || style.boxShadow !== 'none' || style.textDecorationLine !== 'none'
    || style.borderColor !== '' || it.matches(':focus-visible');
  return [name.replace(' (optional)', '').trim(), shown];
}"""


def _cookies(address: str, user: User) -> list[dict[str, str]]:
    client = Client()
    client.force_login(user)
    name = settings.SESSION_COOKIE_NAME
    return [{"name": name, "value": client.cookies[name].value, "url": address}]


def is_required() -> bool:
    """Return whether tests must have a browser: in CI a skipped story is a story that nobody told."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no")
