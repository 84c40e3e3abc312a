"""Links inside the documentation lead somewhere."""

import re
from pathlib import Path

import pytest

from effects.conf import DOCS as ADDRESS
from effects.http.problems import KEY_GUIDE
from tests.docs.blocks import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
#: Names that only this machine, or nobody, knows do not belong on a page.
FOREIGN = re.compile(r"/(?:work)/|/tmp/|DESIGN\.md|STYLE\.md|issue \d", re.IGNORECASE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: explicit ones, and those of its headings as Markdown renderers make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"<[^>]*>|`", "", heading)
        found.add(re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_links_of_a_page_lead_somewhere(page: Path):
    """Each relative link names a page that is there, and an anchor that it has."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.is_file(), target
        assert not anchor or anchor in anchors(linked), target


def test_the_map_has_every_page():
    """`index.md` links to each page once."""
    linked = re.findall(r"\]\(([^)#]+\.md)\)", (DOCS / "index.md").read_text(encoding="utf-8"))
    assert sorted(linked) == sorted(str(page.relative_to(DOCS)) for page in PAGES if page.name != "index.md")


def test_the_address_that_an_answer_without_key_links_to_is_a_page():
    """The `Link` of `idempotency_key_missing` leads to the guide."""
    path = KEY_GUIDE.removeprefix(f"{ADDRESS}/").rstrip("/")
    assert (DOCS / f"{path}.md").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_has_one_title_and_short_lines(page: Path):
    """One first-level heading; lines of at most 120 characters outside of tables and code; nothing foreign."""
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"^(```|<!-- run).*?^(```|-->)$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^# ", prose, re.MULTILINE)) == 1
    long = [line for line in prose.splitlines() if len(line) > 120 and not line.startswith(("|", "*tuple"))]
    assert not long
    assert not FOREIGN.search(text)
