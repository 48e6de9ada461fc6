"""`python -m tests.devices`: compare the allocation of devices with kube-scheduler's allocator on random documents."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.controlplane.build import BuildError
from tests.devices import ours, records
from tests.devices.compare import difference, is_too_long
from tests.devices.generator import FEATURES, draw
from tests.devices.oracle import AllocatorFailed, Allocators, program

_EVERY_SECONDS = 10.0
_LONG = 1_000
"""Steps of a search that a comparison reports as long."""


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.devices", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, metavar="N", help="how many documents to draw")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first document; the others count up")
    parser.add_argument("--feature", default="", choices=["", *FEATURES], help="what every document must have")
    parser.add_argument("--record", type=Path, default=records.FOLDER, metavar="FOLDER", help="where disagreements go")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="disagreements to record")
    parser.add_argument("--allocator", type=Path, metavar="PROGRAM", help="the built command; built here if not given")
    parser.add_argument("--renew", action="store_true", help="record the documents anew, instead of comparing")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; return 1 if the two disagree."""
    options = _arguments(arguments)
    documents = (draw(seed, options.feature) for seed in range(options.seed, options.seed + options.cases))
    try:
        with Allocators(options.allocator or program()) as allocators:
            results = allocators.results(documents)
            if options.renew:
                _show(f"{records.renew(results)} documents recorded in {records.FOLDER}")
                return 0
            return _compare(options, results)
    except (BuildError, AllocatorFailed) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


def _compare(options: argparse.Namespace, results: records.Results) -> int:
    counts: Counter[str] = Counter()
    reported = started = time.monotonic()
    disagreements = 0
    for document, theirs in results:
        if theirs.get("timedOut"):
            counts["(kube-scheduler timed out)"] += 1
            continue
        counts[records.kind(theirs)] += 1
        counts["(long searches)"] += theirs["steps"] > _LONG
        result = ours.allocate(document)
        if result.get("timedOut") and is_too_long(document, theirs):
            counts["(pyscheduler's limit of steps)"] += 1
        elif found := difference(theirs, result):
            disagreements += 1
            _show(f"--seed {document['id']} --feature '{options.feature}': {found}")
            if disagreements <= options.limit:
                _show(f"  recorded in {records.write(options.record, document, theirs)}")
        if time.monotonic() - reported > _EVERY_SECONDS:
            reported = time.monotonic()
            _show(f"{document['id'] - options.seed + 1} documents in {reported - started:.0f} s")
    for name, number in counts.most_common():
        _show(f"{number:7} {name}")
    _show(f"{disagreements:7} disagreements")
    return 1 if disagreements else 0


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
