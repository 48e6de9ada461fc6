"""Cost of decisions without each part of the result cache: `python -m bench.ablation --nodes 5000,50000`.

The scenarios run with the whole cache, then without one of its parts after the other, each in a process of its own.
Reported is how many times as long a decision takes without the part, by the fastest round.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from bench.decide.cluster import Size
from bench.decide.command import chosen_names, node_counts
from bench.decide.measurement import measure
from bench.decide.scenarios import SCENARIOS
from pyscheduler.api.cycle import Cycle
from pyscheduler.api.pod import Pod, PodSignatureGroup
from pyscheduler.core.result_cache import (
    class_results,
    class_totals,
    equivalence_cache,
    invalidation,
    node_classes,
    plugin_result_cache,
    row_filters,
    row_results,
    row_scores,
    score_column,
)
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.kernels import Rows

DEFAULT = "nothing,spread-hard,deployments,templates,new-template,node-changes,full-cluster,anti-affinity-own-app"
ALL_PARTS = "all parts"
_ROW_MODULES = (row_results, row_filters, score_column, row_scores, class_totals)
_pick = row_scores.TopScores.pick
_refresh_totals = class_totals.ClassTotals.refresh
_new_cache = equivalence_cache.EquivalenceCaches._new_cache
_signed_group = equivalence_cache.EquivalenceCaches._signed_group
_score_all = score_column.ScoreColumn.score_all


class Replacement(NamedTuple):
    """An attribute that has another value while a part is left out."""

    target: Any
    attribute: str
    value: object


def _search_all_blocks(top: row_scores.TopScores, random_bits: Callable[[], int]) -> int:
    top._read = None
    return _pick(top, random_bits)


def _keep_no_sums(totals: class_totals.ClassTotals, *changes: Any) -> None:
    totals._by_row = None
    _refresh_totals(totals, *changes)
    totals._by_row = None


def _without_similar(caches: equivalence_cache.EquivalenceCaches, signed: Any) -> equivalence_cache.EquivalenceCache:
    with patch.object(caches, "_similar", {}), patch.object(caches, "_caches", {}):
        return _new_cache(caches, signed)


def _without_shared_rows(
    caches: equivalence_cache.EquivalenceCaches, signed: Any
) -> equivalence_cache.EquivalenceCache:
    caches._rows.clear()
    return _new_cache(caches, signed)


def _sign_each_template(caches: equivalence_cache.EquivalenceCaches, template: PodSignatureGroup, before: Any) -> Any:
    group = _signed_group(caches, template, before)
    own = equivalence_cache._Signed(group.signed.priority, group.signed.values)
    group = caches._groups[template] = equivalence_cache._Group(own, group.versions)
    return group


def _all_readers(readers: invalidation.NodeReaders, *_: object) -> frozenset[str]:
    return frozenset(plugin.name for plugin in readers._plugins)


def _score_in_column(
    column: score_column.ScoreColumn, cycle: Cycle, pod: Pod, state: ClusterState, rows: Rows | slice
) -> None:
    _score_all(column, cycle, pod, state, rows)
    if column.uniform is not None:
        column._raw, column.uniform = np.full(len(state), column.uniform), None


def _never(*_: object) -> bool:
    return False


_CLASSES, _RESULTS = node_classes.NodeClasses, class_results.ClassResults
PARTS: Mapping[str, list[Replacement]] = {
    "TopScores": [Replacement(row_scores.TopScores, "pick", _search_all_blocks)],
    "columns of one number": [Replacement(score_column.ScoreColumn, "score_all", _score_in_column)],
    "UncachedScore": [Replacement(row_scores.UncachedScore, "applies_to", staticmethod(_never))],
    "per-node calls for few rows": [
        *(Replacement(module, "FEW", 0) for module in _ROW_MODULES if hasattr(module, "FEW")),
        *(Replacement(module, "are_few", _never) for module in _ROW_MODULES if hasattr(module, "are_few")),
    ],
    "NodeFields": [Replacement(invalidation.NodeReaders, "of", _all_readers)],
    "caches for what is signed": [
        Replacement(equivalence_cache.EquivalenceCaches, "_signed_group", _sign_each_template)
    ],
    "shared RowResults": [Replacement(equivalence_cache.EquivalenceCaches, "_new_cache", _without_shared_rows)],
    "copies of similar caches": [Replacement(equivalence_cache.EquivalenceCaches, "_new_cache", _without_similar)],
    "PreScore results that follow pods": [Replacement(plugin_result_cache, "is_live", _never)],
    "NodeClasses": [Replacement(_CLASSES, "_has_too_many", True)],
    "rows moved between classes": [
        Replacement(_CLASSES, "_update_counts", lambda it: it._state.placed.version == it._placed_version),
        Replacement(_CLASSES, "_update_nodes", lambda it: it._state.nodes_version == it._nodes_version),
    ],
    "cache keys of classes": [
        Replacement(_RESULTS, "_filter_key", lambda *_: None),
        Replacement(_RESULTS, "_score_key", lambda *_: None),
    ],
    "sums kept by ClassTotals": [Replacement(class_totals.ClassTotals, "refresh", _keep_no_sums)],
}
"""Attributes to replace to leave out a part; results stay the same."""


@contextmanager
def leave_out(part: str) -> Iterator[None]:
    """Run the block without a part. AttributeError if the part has changed and cannot be left out like this."""
    with ExitStack() as stack:
        for target, attribute, value in PARTS.get(part, ()):
            stack.enter_context(patch.object(target, attribute, value))
        yield


def _measure_without(part: str, scenario: str, size: Size) -> dict[str, float]:
    with leave_out(part):
        return {figure.name: figure.least for figure in measure(SCENARIOS[scenario], size)}


def _measure(part: str, scenario: str, size: Size) -> dict[str, float]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_without, (part, scenario, size))


@click.command(help=__doc__)
@click.option("--nodes", default="5000", show_default=True, metavar="N,...", help="Nodes of the cluster.")
@click.option("--scenario", default=DEFAULT, show_default=True, metavar="NAME,...", help="Scenarios.")
@click.option("--part", "parts", multiple=True, type=click.Choice([*PARTS]), help="Part to leave out, by default each.")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Rounds of each row.")
def main(nodes: str, scenario: str, parts: tuple[str, ...], rounds: int) -> None:
    chosen, names = [*(parts or PARTS)], chosen_names(scenario, SCENARIOS, "--scenario")
    shown = Table("µs with all parts, times that without", "nodes", ALL_PARTS, *chosen)
    for size in [Size(count, rounds=rounds) for count in node_counts([nodes])]:
        for name in names:
            runs = [_measure(part, name, size) for part in (ALL_PARTS, *chosen, ALL_PARTS)]
            for row, first in runs[0].items():
                whole = min(first, runs[-1][row])
                cells = (f"{run[row] / whole:.2f}" for run in runs[1:-1])
                shown.add_row(row, f"{size.nodes:,}", f"{whole:.1f}", *cells)
    Console(width=240).print(shown)


if __name__ == "__main__":
    main()
