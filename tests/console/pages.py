"""What a person does in a browser without JavaScript: open a page, fill in its form, send it."""

import html
import re
from typing import Any

from django.http import HttpResponse
from django.test import Client
from django.urls import reverse


def page_of(ref: Any, model: str = "execution") -> str:
    return reverse(f"admin:effects_{model}_change", args=[ref])


def verb_of(ref: Any, verb: str, model: str = "execution") -> str:
    return reverse(f"admin:effects_{model}_{verb.replace('-', '_')}", args=[ref])


def text_of(response: HttpResponse) -> str:
    """Return what a person reads on the page."""
    body = re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", response.content.decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(body))


def form_of(response: HttpResponse) -> dict[str, str]:
    """Return the hidden fields of the page's form."""
    inputs = re.findall(r'<input type="hidden" ([^>]+)>', response.content.decode())
    pairs = [dict(re.findall(r'(\w+)="([^"]*)"', each)) for each in inputs]
    return {each["name"]: html.unescape(each["value"]) for each in pairs if each["name"] != "csrfmiddlewaretoken"}


def send(client: Client, address: str, **typed: str) -> HttpResponse:
    """Open a verb's page, fill its form in and send it."""
    opened = client.get(address)
    return client.post(address, {**form_of(opened), **typed})
