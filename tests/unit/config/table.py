"""Table of configurations with the recorded results of kube-scheduler.

`python -m tests.unit.config.table` runs kube-scheduler again and records its results beside ours.
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
ACCEPTED = tuple(row for row in ROWS if not row.errors)
WRONG = tuple(row for row in ROWS if row.errors)
KUBE, OURS = "kube-scheduler", "pyscheduler"
_FILE = Path(__file__).parent / "side_by_side.json"


def recorded() -> dict[str, dict[str, Any]]:
    """Return by row the error of kube-scheduler ("" if it accepts the file) and our problems."""
    return json.loads(_FILE.read_text()) if _FILE.exists() else {}


def record() -> None:
    """Run kube-scheduler on every row, building it if necessary, and write the results."""
    from tests.controlplane.build import binaries
    from tests.controlplane.write_config import ask

    program = binaries() / "kube-scheduler"
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            error = ask(program, row.text, Path(folder)).error.replace(folder, "")
            results[row.id] = {KUBE: error, OURS: problems(row.text)}
    _FILE.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{len(results)} rows in {_FILE}\n")


if __name__ == "__main__":
    record()
