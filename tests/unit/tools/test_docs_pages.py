"""Links of the Markdown pages lead to the right place on the docs site."""

from __future__ import annotations

import re

import pytest

from tools.docs_pages import _LINK, reference_page, site_link

PAGES = {"index.md", "make-run.svg", "plugins.md", "adr/0001-pure-core-thin-shell.md", "ARCHITECTURE.md"}
REPOSITORY = "https://example.com/repository"


def on_site(link: str, source: str) -> str:
    match = _LINK.search(f"[text]({link})")
    assert isinstance(match, re.Match)
    return site_link(match, source, PAGES, REPOSITORY)[2:-1]


@pytest.mark.parametrize(
    ("link", "source", "expected"),
    [
        pytest.param("docs/plugins.md#files", "README.md", "plugins.md#files", id="from the top to a page"),
        pytest.param("../README.md", "docs/plugins.md", "index.md", id="the README is the first page"),
        pytest.param("docs/make-run.svg", "README.md", "make-run.svg", id="a picture"),
        pytest.param("plugins.md", "docs/parity.md", "plugins.md", id="beside"),
        pytest.param("../plugins.md", "docs/adr/0001-pure-core-thin-shell.md", "../plugins.md", id="from a decision"),
        pytest.param("../config/qos.yaml", "docs/x.md", f"{REPOSITORY}/blob/main/config/qos.yaml", id="a source file"),
        pytest.param("config", "README.md", f"{REPOSITORY}/tree/main/config", id="a folder"),
        pytest.param("missing.md", "docs/plugins.md", "missing.md", id="a broken link stays, and is reported"),
    ],
)
def test_links(link: str, source: str, expected: str) -> None:
    assert on_site(link, source) == expected


def test_the_reference_lists_every_public_name() -> None:
    page = reference_page("pyscheduler.testing")
    assert "::: pyscheduler.testing.Harness" in page
