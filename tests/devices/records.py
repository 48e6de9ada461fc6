"""Recorded documents with kube-scheduler's results, to check agreement without Go."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.devices.oracle import Document, Result

FOLDER = Path(__file__).parent / "recorded"
Results = Iterable[tuple[Document, Result]]
OFTEN = 4
"""Recorded documents with a feature and a kind of result, if as many were drawn."""
LARGEST = 5_000
"""Bytes; larger documents are recorded only as disagreements."""
_PER_FILE = 50


def files(folder: Path = FOLDER) -> list[Path]:
    """Return the files; each line is a document with its result."""
    return sorted(folder.glob("*.jsonl"))


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file, with `document` and `result`."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(folder: Path, document: Document, result: Result) -> Path:
    """Write a disagreement to a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:8]
    path = folder / f"disagreement-{digest}.jsonl"
    path.write_text(_line(document, result))
    return path


def renew(results: Results) -> int:
    """Replace the drawn records by some that cover each feature with each kind of result. Return their number."""
    for path in FOLDER.glob("drawn-*.jsonl"):
        path.unlink()
    FOLDER.mkdir(exist_ok=True)
    lines = [_line(*chosen) for chosen in _chosen(results)]
    for number, start in enumerate(range(0, len(lines), _PER_FILE)):
        (FOLDER / f"drawn-{number:02}.jsonl").write_text("".join(lines[start : start + _PER_FILE]))
    return len(lines)


def kind(result: Result) -> str:
    """Return the kind of a result: allocated, nothing, or the error without names and numbers."""
    if result.get("allocations"):
        return "allocated"
    words = [w for w in str(result.get("error", "nothing")).split() if w.isalpha()]
    return " ".join(words[:12])


def _chosen(results: Results) -> Iterator[tuple[Document, Result]]:
    seen: Counter[tuple[str, str]] = Counter()
    for document, result in results:
        if result.get("timedOut") or len(json.dumps(document)) > LARGEST:
            continue
        keys = [(feature, kind(result)) for feature in document["features"]]
        if any(seen[key] < OFTEN for key in keys):
            seen.update(keys)
            yield document, result


def _line(document: Document, result: Result) -> str:
    return json.dumps({"document": document, "result": result}, separators=(",", ":"), sort_keys=True) + "\n"
