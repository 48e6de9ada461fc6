"""Links, headings, examples and source files named in the pages exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, links, prose, text_of, words_in_code

_FILE = re.compile(r"[\w.\-/]+/[\w.\-]*\.(?:py|yaml|md|toml)\Z")
_BASES = (ROOT, ROOT / "pyscheduler", ROOT / "docs", ROOT / "pyscheduler" / "embedded")


@pytest.mark.parametrize("page", PAGES)
def test_links_resolve(page: str) -> None:
    for link in links(page):
        target, _, anchor = link.partition("#")
        file = (ROOT / page).parent / target if target else ROOT / page
        assert file.exists(), f"{page}: {link} does not exist"
        if anchor:
            found = anchors(str(file.resolve().relative_to(ROOT)))
            assert anchor in found, f"{page}: {link} names no heading of {sorted(found)}"


@pytest.mark.parametrize("page", PAGES)
def test_files_named_in_code_exist(page: str) -> None:
    named = [word for word in words_in_code(prose(page)) if _FILE.match(word) and not word.startswith("/")]
    missing = [word for word in named if not any((base / word).exists() for base in _BASES)]
    assert not missing, f"{page} names missing files: {missing}"


@pytest.mark.parametrize("folder", ["config", "manifests/examples", "docs/examples"])
def test_every_file_to_start_from_can_be_found(folder: str) -> None:
    pages = "\n".join(text_of(page) for page in PAGES)
    files = [f"{folder}/{path.name}" for path in sorted((ROOT / folder).iterdir()) if path.is_file()]
    assert files
    assert [file for file in files if file not in pages and file.removeprefix("docs/") not in pages] == []


def test_config_and_manifests_named_anywhere_exist() -> None:
    for page in PAGES:
        for name in re.findall(r"\b(?:config|manifests/examples|docs/examples)/[\w\-]+\.yaml", text_of(page)):
            assert (ROOT / name).exists(), f"{page} names {name}"
