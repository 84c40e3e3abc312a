"""People in the admin: they log in, look at pages, and press buttons of forms, with cookies and CSRF as in life."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import requests

__all__ = ["Browser", "Form", "Page"]

TIMEOUT = 20.0
Attributes = list[tuple[str, str | None]]


@dataclass(slots=True)
class Form:
    """A form of a page.

    Attributes:
        action: Where it is sent, as written; empty: to its own page.
        method: As written, in small letters.
        fields: What it would send untouched: hidden inputs, texts, chosen options.
        buttons: Names and values of its buttons.
    """

    action: str = ""
    method: str = "get"
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)
    choices: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it was answered.

    Attributes:
        url: Its address after redirects.
        status: The HTTP status.
        text: Its HTML.
        forms: Its forms, in their order.
    """

    url: str
    status: int
    text: str
    forms: list[Form]

    @property
    def said(self) -> str:
        """What the page says first: its messages and its errors, without tags."""
        found = re.findall(r'class="(?:messagelist|errornote|errorlist)[^"]*".*?</(?:ul|p|div)>', self.text, re.DOTALL)
        words = " ".join(re.sub(r"<[^>]*>", " ", text.partition(">")[2]) for text in found)
        return html.unescape(" ".join(words.split()))

    def form(self, name: str) -> Form:
        """Return the form that has a field or a button of that name.

        Raises:
            LookupError: There is none: the page does not offer it.
        """
        for form in self.forms:
            if form.method == "post" and (name in form.fields or any(name == each for each, _ in form.buttons)):
                return form
        raise LookupError(f"{self.url} ({self.status}) has no form with {name!r}")


class Browser:
    """One person at the admin, logged in through its form.

    Args:
        base: The shop's address.
        user: Who.
        password: Their password.

    Raises:
        PermissionError: They were not let in.
    """

    def __init__(self, base: str, user: str, password: str) -> None:
        self._base, self._session = base, requests.Session()
        page = self.open("/admin/login/?next=/admin/")
        arrived = self.submit(page, page.form("password"), {"username": user, "password": password})
        if urlsplit(arrived.url).path != "/admin/":
            raise PermissionError(f"{user} was not let into the admin")

    def open(self, path: str) -> Page:
        """Look at a page."""
        return _page(self._session.get(urljoin(self._base, path), timeout=TIMEOUT))

    def submit(self, page: Page, form: Form, said: Mapping[str, str]) -> Page:
        """Send a form of a page, as shown except for what the person `said`."""
        response = self._session.post(
            urljoin(page.url, form.action or page.url),
            data={**form.fields, **said},
            headers={"Referer": page.url},
            timeout=TIMEOUT,
        )
        return _page(response)


def _page(response: requests.Response) -> Page:
    parser = _Forms()
    parser.feed(response.text)
    return Page(response.url, response.status_code, response.text, parser.forms)


class _Forms(HTMLParser):
    """Collects the forms of a page with what they would send."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._textarea: str | None = None
        self._select: str | None = None

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        """Note a form or one of its parts."""
        said = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(said.get("action", ""), said.get("method", "get").lower()))
        elif not self.forms:
            return
        elif tag == "textarea":
            self._textarea = said.get("name", "")
            self.forms[-1].fields[self._textarea] = ""
        elif tag == "select":
            self._select = said.get("name", "")
        elif tag == "option" and self._select is not None:
            self._note_option(self._select, said)
        elif tag in ("input", "button"):
            self._note_input(tag, said)

    def handle_data(self, data: str) -> None:
        """Note what stands in a text area."""
        if self._textarea is not None:
            said = self.forms[-1].fields[self._textarea]
            # a newline right after the tag is not a part of the text, says HTML
            self.forms[-1].fields[self._textarea] = said + (data if said else data.removeprefix("\n"))

    def handle_endtag(self, tag: str) -> None:
        """Leave a text area or a list of options."""
        if tag == "textarea":
            self._textarea = None
        elif tag == "select":
            self._select = None

    def _note_option(self, name: str, said: dict[str, str]) -> None:
        form = self.forms[-1]
        form.choices.setdefault(name, []).append(said.get("value", ""))
        if "selected" in said or name not in form.fields:
            form.fields[name] = said.get("value", "")

    def _note_input(self, tag: str, said: dict[str, str]) -> None:
        form, kind, name = self.forms[-1], said.get("type", "submit" if tag == "button" else "text"), said.get("name")
        if name is None:
            return
        if kind in ("submit", "button", "image"):
            form.buttons.append((name, said.get("value", "")))
        elif kind == "radio":
            form.choices.setdefault(name, []).append(said.get("value", ""))
            if "checked" in said:
                form.fields[name] = said.get("value", "")
        elif kind != "checkbox" or "checked" in said:
            form.fields[name] = said.get("value", "on" if kind == "checkbox" else "")
