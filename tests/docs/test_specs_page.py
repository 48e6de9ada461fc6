"""The specs page names every spec test, and no other."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, rows, words_in_code

PAGE = "docs/specs.md"
HEADINGS = (
    "Filtering and scoring",
    "Preemption",
    "Pod groups",
    "Devices",
    "Events and conditions",
    "Workloads",
    "Volumes",
)


def test_tables_name_every_spec_test() -> None:
    files = sorted((ROOT / "tests" / "e2e").glob("test_spec_*.py"))
    tests = [name for file in files for name in re.findall(r"^async def test_(\w+)", file.read_text(), re.M)]
    documented = [name for heading in HEADINGS for row in rows(PAGE, heading) for name in words_in_code(row[1])]
    assert sorted(documented) == sorted(tests)
