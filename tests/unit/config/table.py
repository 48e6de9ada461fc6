"""The whole table of configurations, and what kube-scheduler said to each row when it was asked.

`python -m tests.unit.config.table` asks it anew and writes the answers down, beside ours.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.unit.config.files import problems
from tests.unit.config.row import Row
from tests.unit.config.rows_args import ARGS
from tests.unit.config.rows_fields import CLIENT, ELECTION, FIELDS, PROFILES
from tests.unit.config.rows_files import DECODED, EXTENDERS
from tests.unit.config.rows_plugins import MERGING, REFUSED
from tests.unit.config.rows_scoring import SCORING

SAMPLES = tuple(
    Row(f"sample {file.stem}", file.read_text()) for file in sorted((Path(__file__).parent / "samples").glob("*.yaml"))
)
ROWS = (*FIELDS, *CLIENT, *ELECTION, *PROFILES, *EXTENDERS, *DECODED, *MERGING, *REFUSED, *ARGS, *SCORING, *SAMPLES)
ACCEPTED = tuple(row for row in ROWS if not row.says)
WRONG = tuple(row for row in ROWS if row.says)
KUBE, OURS = "kube-scheduler", "pyscheduler"
_FILE = Path(__file__).parent / "side_by_side.json"


def recorded() -> dict[str, dict[str, Any]]:
    """By row, what kube-scheduler said ("" if it took the file) and our problems."""
    return json.loads(_FILE.read_text()) if _FILE.exists() else {}


def record() -> None:
    """Ask the real kube-scheduler about every row, building it where it is missing."""
    from tests.controlplane.build import binaries
    from tests.controlplane.write_config import ask

    program = binaries() / "kube-scheduler"
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            said = ask(program, row.text, Path(folder)).error.replace(folder, "")
            answers[row.id] = {KUBE: said, OURS: problems(row.text)}
    _FILE.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{len(answers)} rows in {_FILE}\n")


if __name__ == "__main__":
    record()
