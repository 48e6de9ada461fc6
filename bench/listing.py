"""Table of the workloads."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from bench.program import compiled
from bench.suite import Case


def table(cases: Sequence[Case]) -> Table:
    """Return a table with sizes, labels and targets of each workload."""
    shown = Table("workload", "labels")
    for title in ("nodes", "initial objects", "measured pods"):
        shown.add_column(title, justify="right")
    shown.add_column("targets, as ratios to kube-scheduler")
    for case in cases:
        program = compiled(case)
        initial = sum(batch.count for batch in program.shared)
        sizes = [f"{number:,}" for number in (len(program.node_names), initial, len(program.measured))]
        targets = ", ".join(f"{key} {bound:g}" for key, bound in case.targets.items())
        shown.add_row(case.name, ", ".join(case.workload.labels), *sizes, targets)
    return shown
