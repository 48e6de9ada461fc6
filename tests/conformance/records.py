"""Recorded cases: documents with kube-scheduler's results, to check agreement without Go.

A `.json` file holds one case, as the comparison writes it for a disagreement; a `.jsonl` file holds one per line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain
from pathlib import Path
from typing import Any

from tests.conformance.coverage import subjects
from tests.conformance.generator import Case
from tests.conformance.generator.generated_cluster import Manifest
from tests.conformance.oracle import Oracle, is_skipped, panic

FOLDER = Path(__file__).parent / "recorded"
_OFTEN = 3  # recorded cases per feature and reason, if as many were drawn
_LARGE = 9_000  # bytes; larger cases are recorded only for what no other covers
_PER_FILE = 25


def files(folder: Path = FOLDER) -> list[Path]:
    return sorted((*folder.glob("*.json"), *folder.glob("*.jsonl")))


def read(path: Path) -> list[Manifest]:
    """Return the cases of a file, with `features`, `document`, `answers`."""
    text = path.read_text()
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]


def write(folder: Path, kind: str, case: Case, answers: list[Any]) -> Path:
    """Write one case to an indented file named after the kind of disagreement."""
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(json.dumps(case.document, sort_keys=True).encode()).hexdigest()[:8]
    path = folder / f"{re.sub(r'[^A-Za-z]+', '-', kind)}-{digest}.json"
    path.write_text(json.dumps(_recorded(case, answers), indent=1) + "\n")
    return path


def _recorded(case: Case, answers: list[Any]) -> Manifest:
    return {"features": list(case.features), "document": case.document, "answers": answers}


def renew(name: str, cases: Iterable[Case], oracle: Oracle, least: int) -> int:
    """Record the files of that name again: at least `least` cases that cover every feature and reason drawn.

    Returns the number of cases.
    """
    return _write(name, [_recorded(*chosen) for chosen in _chosen(cases, oracle, least)])


def renew_sequences(cases: Iterable[Case], oracle: Oracle, wanted: int, feature: str = "") -> int:
    """Record sequences again: the smallest with preemptions, every third with many nodes.

    Those with devices are the smallest in which some claims get devices and others lose them.
    """
    drawn = [pair for pair in _evaluated(cases, oracle) if _is_telling(pair[1][0]["attempts"], feature)]
    drawn.sort(key=lambda pair: _size(*pair))
    many = [pair for pair in drawn if "sequence:many-nodes" in pair[0].features][: wanted // 3]
    few = [pair for pair in drawn if "sequence:few-nodes" in pair[0].features][: wanted - len(many)]
    return _write(f"{feature}-sequences" if feature else "sequences", [_recorded(*pair) for pair in (*few, *many)])


def _is_telling(attempts: list[Manifest], feature: str) -> bool:
    if feature == "devices":
        written = [devices for attempt in attempts for devices in attempt["devices"].values()]
        return sum(map(bool, written)) >= _OFTEN and not all(written)
    return any(attempt["victims"] for attempt in attempts)


def _evaluated(cases: Iterable[Case], oracle: Oracle) -> Iterator[tuple[Case, list[Any]]]:
    """Yield the cases with kube-scheduler's results, without those for which it takes too long or panics."""
    for case in cases:
        answers = oracle.evaluate(case.document)
        if not is_skipped(answers) and not any(map(panic, answers)):
            yield case, answers


def _write(name: str, recorded: list[Manifest]) -> int:
    """Replace all files of that name."""
    for path in FOLDER.glob(f"{name}-[0-9][0-9].jsonl"):
        path.unlink()
    lines = [json.dumps(case, separators=(",", ":")) + "\n" for case in recorded]
    for number, start in enumerate(range(0, len(lines), _PER_FILE)):
        (FOLDER / f"{name}-{number:02}.jsonl").write_text("".join(lines[start : start + _PER_FILE]))
    return len(lines)


def _chosen(cases: Iterable[Case], oracle: Oracle, least: int) -> Iterator[tuple[Case, list[Any]]]:
    """Yield small cases in which many features meet many reasons, scores and preemptions; then cases of rare ones."""
    drawn = list(_evaluated(cases, oracle))
    tested = [_tested(case, answers) for case, answers in drawn]
    sizes = [_size(case, answers) for case, answers in drawn]
    chosen = _by_new_pairs(
        [pairs if size < _LARGE else set() for pairs, size in zip(tested, sizes, strict=True)], least
    )
    seen = Counter(subject for number in chosen for subject in {*chain(*tested[number])})
    for number in sorted(set(range(len(drawn))) - set(chosen), key=sizes.__getitem__):
        alone = {*chain(*tested[number])}
        if any(seen[subject] < _OFTEN for subject in alone):
            seen.update(alone)
            chosen.append(number)
    return (drawn[number] for number in sorted(chosen))


def _tested(case: Case, answers: list[Any]) -> set[tuple[str, str]]:
    """Return all pairs of a feature and a subject of the results."""
    came = {subject for answer in answers for subject in subjects(answer)} or {"nothing"}
    return {(feature, subject) for feature in case.features for subject in came}


def _by_new_pairs(tested: list[set[tuple[str, str]]], wanted: int) -> list[int]:
    """Return the cases greedily: always the one with the most new pairs."""
    chosen: list[int] = []
    seen: set[tuple[str, str]] = set()
    best = [(-len(pairs), number) for number, pairs in enumerate(tested)]
    heapify(best)
    while best and len(chosen) < wanted:
        _, number = heappop(best)
        worth = len(tested[number] - seen)
        if best and worth < -best[0][0]:
            heappush(best, (-worth, number))  # its value decreased with the cases chosen since
            continue
        seen |= tested[number]
        chosen.append(number)
    return chosen


def _size(case: Case, answers: list[Any]) -> int:
    return len(json.dumps(_recorded(case, answers)))
