"""`python -m tests.conformance`: compare `pyscheduler evaluate` with the real kube-scheduler on random clusters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyscheduler.cli.progress_bar import ProgressBar
from tests.conformance import records
from tests.conformance.coverage import Coverage
from tests.conformance.generator import DEFAULT, GROUPS, PROFILES, Case, draw, draw_sequence
from tests.conformance.generator.sequence import FEATURES
from tests.conformance.oracle import Oracle, OracleFailed, program
from tests.conformance.run import Outcome, explain, outcomes, smallest
from tests.controlplane.build import BuildError


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, metavar="N", help="how many clusters to draw")
    parser.add_argument("--sequences", type=int, default=0, metavar="N", help="compare N sequences of pods instead")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first case; the others count up from it")
    parser.add_argument("--profile", default="", choices=["", DEFAULT, *PROFILES], help="what every profile must have")
    parser.add_argument("--feature", default="", choices=["", *GROUPS], help="what every case must have")
    parser.add_argument("--record", type=Path, default=records.FOLDER, metavar="FOLDER", help="where disagreements go")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="disagreements to minimise and record")
    parser.add_argument("--oracle", type=Path, metavar="PROGRAM", help="a built oracle; built here where none is given")
    parser.add_argument("--renew", type=int, metavar="N", help="record N cases or more anew, instead of comparing")
    options = parser.parse_args(arguments)
    if options.sequences and options.feature and options.feature not in FEATURES:
        parser.error(f"sequences do not have the feature {options.feature}; they have {', '.join(FEATURES)}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; return 1 if the two disagree."""
    options = _arguments(arguments)
    try:
        path = options.oracle or program()
        if options.renew:
            with Oracle(path) as oracle:
                _renew(options, oracle)
            return 0
        with Oracle(path) as oracle, Oracle(path) as second:
            coverage = _compare(options, oracle, second)
    except (BuildError, OracleFailed) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    for line in coverage.table():
        _show(line)
    return 1 if coverage.disagreements else 0


def _compare(options: argparse.Namespace, oracle: Oracle, second: Oracle) -> Coverage:
    """Compare all cases; `second` minimises disagreements while the first oracle works on the cases ahead."""
    coverage, total = Coverage(), options.sequences or options.cases
    with ProgressBar("conformance") as bar:
        for outcome in outcomes(_cases(options), oracle, second):
            coverage.add(outcome.case, outcome.theirs, outcome.found)
            if outcome.found:
                bar.clear()
                _show_disagreement(options, outcome, second, sum(coverage.disagreements.values()))
            bad, skipped = sum(coverage.disagreements.values()), len(coverage.skipped)
            bar.show(f"{bad} disagreements, {skipped} skipped, case", coverage.cases, total)
    return coverage


def _show_disagreement(options: argparse.Namespace, outcome: Outcome, oracle: Oracle, number: int) -> None:
    """Minimise, explain and record a disagreement, if it is not beyond the limit."""
    if number > options.limit:
        return
    small = smallest(outcome, oracle)
    explain(small, _show)
    path = records.write(options.record, outcome.found[0].kind, small.case, small.theirs)
    _show(f"  recorded in {path}")


def _renew(options: argparse.Namespace, oracle: Oracle) -> None:
    if options.sequences:
        number = records.renew_sequences(_cases(options), oracle, options.renew, options.feature)
    else:
        number = records.renew(options.feature or "drawn", _cases(options), oracle, options.renew)
    _show(f"{number} cases recorded in {records.FOLDER}")


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    if options.sequences:
        seeds = range(options.seed, options.seed + options.sequences)
        return (draw_sequence(seed, options.feature) for seed in seeds)
    return (draw(seed, options.profile, options.feature) for seed in range(options.seed, options.seed + options.cases))


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
