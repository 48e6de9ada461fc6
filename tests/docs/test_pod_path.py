"""The path of a warm pod: as in docs/pod-path.md, and short enough to be read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_FILES, MAX_CALLS = 40, 180
FILE = re.compile(r"^\| `(\S+\.py)` \|", re.MULTILINE)


def recorded(*options: str) -> str:
    command = (sys.executable, "-m", "bench.pod_path", *options)
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120).stdout


def test_warm_pod_passes_the_files_in_the_table_and_no_more_than_forty() -> None:
    files = FILE.findall(recorded("--markdown"))
    documented = FILE.findall((ROOT / "docs/pod-path.md").read_text())
    assert sorted(files) == sorted(documented), "run python -m bench.pod_path --markdown, and renew docs/pod-path.md"
    assert len(files) <= MAX_FILES


def test_warm_pod_takes_at_most_180_calls() -> None:
    match = re.search(r"(\d+) files\D+\d+\D+(\d+)", recorded())
    assert match is not None
    assert int(match[2]) <= MAX_CALLS
