"""Result cache: what attempts that are rejected before scoring leave for the next ones."""

from __future__ import annotations

import pytest

from pyscheduler.core.result_cache import row_results
from pyscheduler.core.result_cache.invalidation import DirtyRows
from pyscheduler.testing import Harness, node, pod

NODES = 20


def test_rows_to_score_do_not_grow_with_the_number_of_rejected_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    union = row_results._union

    def recorded(some: DirtyRows, others: DirtyRows) -> DirtyRows:
        rows = union(some, others)
        sizes.append(len(rows))
        return rows

    monkeypatch.setattr(row_results, "_union", recorded)
    harness = Harness()
    harness.add(*(node(f"n{i}", cpu="4") for i in range(NODES)))
    harness.add(pod("fits").requests(cpu="3"))
    harness.run()
    for attempt in range(10):
        running = (pod(f"running-{attempt}-{i}").requests(cpu="2").on(f"n{i}") for i in range(NODES))
        harness.add(*running, pod(f"rejected-{attempt}").requests(cpu="3"))
        harness.run()
    assert not any(name.startswith("rejected") for name in harness.assignments)
    assert max(sizes) <= 2 * NODES, "those of an attempt, and each node once"
