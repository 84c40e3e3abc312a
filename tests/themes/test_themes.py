"""The console under django-unfold and django-jazzmin, which take the place of the admin's templates and styles."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from project.services.processes import Processes
from tests.console.chromium import Chromium, Person
from tests.console.scene import Scene, pages

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[2]

PAGES = ("queue", "overview", "executions", "hopeless execution", "approval", "request", "receipt", "resolve",
         "bulk approve")  # fmt: skip

_SHOWN = "[...document.querySelectorAll('{}')].filter(it => it.checkVisibility()).length"
#: Fields without a border, buttons whose text can hardly be read, headings as large as a theme's page titles.
_BARE = """() => {
  const ours = selector => [...document.querySelectorAll(`:is(.fx-main, #changelist-search) :is(${selector})`)];
  const style = it => getComputedStyle(it);
  const light = colour => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(it => it / 255).map(
      it => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05;
  };
  const isFaint = it => {
    const [one, other] = [light(style(it).color), light(style(it).backgroundColor)];
    return style(it).backgroundColor === 'rgba(0, 0, 0, 0)' || Math.max(one, other) / Math.min(one, other) < 4.5;
  };
  return [
    ...ours('input, textarea, select').filter(it => it.offsetWidth > 1 && style(it).borderTopWidth === '0px'
      && !['checkbox', 'radio', 'submit'].includes(it.type)),
    ...ours('a.button, input[type=submit]').filter(isFaint),
    ...ours('h2').filter(it => parseFloat(style(it).fontSize) > 16),
  ].map(it => it.outerHTML);
}"""


@pytest.fixture(params=["with_unfold", "with_jazzmin"])
def theme(request: pytest.FixtureRequest, processes: Processes, db: None) -> Iterator[str]:
    """A server whose admin has a theme, over the journal of the test; its address. Themes begin with the process."""
    server = processes.start_on_port(
        request.param,
        lambda port: [sys.executable, "manage.py", "runserver", "--noreload", "--skip-checks", f"127.0.0.1:{port}"],
        cwd=ROOT,
        env={
            "DJANGO_SETTINGS_MODULE": f"tests.themes.{request.param}",
            "DATABASE_URL": _address_of(connection.settings_dict),
        },
    )
    process, port = server
    yield f"http://127.0.0.1:{port}"
    processes.stop_one(process)


def _address_of(options: dict[str, Any]) -> str:
    user, password, host = (options[part] for part in ("USER", "PASSWORD", "HOST"))
    whom = f"{user}:{password}@" if password else f"{user}@" if user else ""
    where = host if not host.startswith("/") else ""
    query = f"?host={host}" if host.startswith("/") else ""
    return f"postgresql://{whom}{where}:{options['PORT'] or 5432}/{options['NAME']}{query}"


def test_pages_keep_title_tabs_and_fields(theme: str, chromium: Chromium, scene: Scene, chief: User) -> None:
    """Under each theme every page shows its title and its tabs, forms show where to type, and no link is dead."""
    window: Person = chromium.seat(theme, chief)
    wrong: dict[str, Any] = {}
    places = pages(scene)
    for name in PAGES:
        window.opens(places[name])
        seen = {
            "titles": window.evaluates(_SHOWN.format(".fx-console h1")),
            "tabs": window.evaluates(_SHOWN.format(".fx-tabs")),
            "bare": window.evaluates(_BARE),
            "history": window.sees("a[href$='/history/']"),
        }
        if seen != {"titles": 1, "tabs": 1, "bare": [], "history": 0}:
            wrong[name] = seen
    faults = window.faults
    window.leaves()
    assert wrong == {}
    assert faults == []
