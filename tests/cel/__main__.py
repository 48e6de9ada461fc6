"""`python -m tests.cel`: compare our evaluation of random device selectors with Kubernetes' own."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.cel import oracle, vectors
from tests.cel.compare import Difference, compare
from tests.cel.generator import Generator
from tests.controlplane.build import BuildError

_BATCH = 2000


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cel", description=__doc__)
    parser.add_argument("--cases", type=int, default=5000, metavar="N", help="how many cases to draw")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed; each 2,000 cases have one")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="disagreements to print")
    parser.add_argument("--record", type=int, metavar="N", help="record N cases, instead of comparing")
    parser.add_argument("--oracle", type=Path, metavar="PROGRAM", help="a built oracle; built here where none is given")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; return 1 if the two disagree."""
    options = _arguments(arguments)
    try:
        path = options.oracle or oracle.program()
    except BuildError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if options.record:
        sys.stdout.write(f"{vectors.record(path, options.record)} cases recorded in {vectors.FILE}\n")
        return 0
    return _compare(path, options)


def _compare(path: Path, options: argparse.Namespace) -> int:
    kinds: Counter[str] = Counter()
    found: list[Difference] = []
    for number, start in enumerate(range(0, options.cases, _BATCH)):
        generator = Generator(Random(options.seed + number))
        cases = [generator.case() for _ in range(min(_BATCH, options.cases - start))]
        for case, theirs in zip(cases, oracle.evaluate(path, cases), strict=True):
            kinds["compile error" if "compileError" in theirs else "error" if "error" in theirs else "value"] += 1
            difference = compare(case, theirs)
            if difference:
                found.append(difference)
                if len(found) <= options.limit:
                    sys.stdout.write(f"{difference}\n")
    outcomes = ", ".join(f"{count} with {kind}" for kind, count in sorted(kinds.items()))
    sys.stdout.write(f"{sum(kinds.values())} cases ({outcomes}), {len(found)} disagreements\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
