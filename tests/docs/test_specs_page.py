"""The specs page names every spec test, and no other."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, rows, words_in_code

PAGE = "docs/specs.md"
HEADINGS = (
    "Where a pod may go, and had better go",
    "Who has to go for whom",
    "What is told",
    "Workloads",
    "Volumes",
)


def test_the_tables_name_the_stories() -> None:
    files = sorted((ROOT / "tests" / "e2e").glob("test_spec_*.py"))
    stories = [name for file in files for name in re.findall(r"^async def test_(\w+)", file.read_text(), re.M)]
    told = [name for heading in HEADINGS for row in rows(PAGE, heading) for name in words_in_code(row[1])]
    assert sorted(told) == sorted(stories)
