"""Result cache: the next node after a pod has filled the best one, so that scores are normalised over the others."""

from __future__ import annotations

import pytest

from pyscheduler.api import (
    Cycle,
    DefaultNormalizeScore,
    FilterPlugin,
    Mask,
    NodeInfo,
    Pod,
    Reads,
    Rejection,
    ScorePlugin,
)
from pyscheduler.core.result_cache.invalidation import DirtyRows
from pyscheduler.core.result_cache.row_scores import RowScores
from pyscheduler.core.result_cache.score_column import ScoreColumn
from pyscheduler.testing import Harness, node, pod


class OnePod(FilterPlugin):
    """Reject nodes with a pod."""

    name = "OnePod"
    reads = Reads.OWN_NODE_AND_PODS
    reads_labels = False

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return Rejection("node(s) were full") if node.pods else None


class Label(ScorePlugin):
    """Score nodes by a label."""

    reads = Reads.OWN_NODE
    reads_labels = False

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return int(node.labels.get(self.name, "0"))


class Normalized(Label):
    """The best node has a score of 100, whatever its label."""

    name = "Normalized"
    normalizer = DefaultNormalizeScore()


class Absolute(Label):
    """Scores are not normalised."""

    name = "Absolute"


def one_pod_on_each_node() -> Harness:
    plugins = (
        "PrioritySort",
        "DefaultBinder",
        *(f"{__name__}:{each}" for each in ("OnePod", "Normalized", "Absolute")),
    )
    enabled = ", ".join(f'{{name: "{name}"}}' for name in plugins)
    return Harness(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        f'- plugins: {{multiPoint: {{disabled: [{{name: "*"}}], enabled: [{enabled}]}}}}\n'
    )


def nodes_of_pods(others: int, *labels: tuple[str, str]) -> list[str]:
    """Return the nodes of three pods, one after the other; each node has labels with its two scores."""
    harness = one_pod_on_each_node()
    for i, (normalized, absolute) in enumerate(labels):
        harness.add(node(f"n{i + 1}").label("Normalized", normalized).label("Absolute", absolute))
    harness.add(*(node(f"other{i}") for i in range(others)))
    names = []
    for name in ("a", "b", "c"):
        harness.add(pod(name))
        harness.run()
        bound = harness.pod(name)
        assert bound is not None
        names.append(bound["spec"]["nodeName"])
    return names


OTHERS = pytest.mark.parametrize("others", [0, 20], ids=["few nodes", "many nodes"])
# Without n1, n2 has 100 and n3 has 50 + 45. Normalised with n1, they have 10 and 5 + 45.
DEPENDENT = (("100", "1"), ("10", "0"), ("5", "45"))


@OTHERS
def test_scores_are_normalised_over_the_nodes_that_are_left(others: int) -> None:
    assert nodes_of_pods(others, *DEPENDENT) == ["n1", "n2", "n3"]


def test_scores_are_not_refreshed_if_all_nodes_have_the_same_before_normalisation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, update_rows = list[bool](), RowScores.update_rows

    def recorded(self: RowScores, cycle: Cycle, pod: Pod, rows: DirtyRows, feasible: Mask, changed: bool) -> bool:
        kept.append(update_rows(self, cycle, pod, rows, feasible, changed))
        return kept[-1]

    monkeypatch.setattr(RowScores, "update_rows", recorded)
    assert nodes_of_pods(20, *(("0", absolute) for absolute in "321")) == ["n1", "n2", "n3"]
    assert kept[-1]


def test_kept_scores_would_change_the_node_if_they_were_normalised_over_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ScoreColumn, "is_same_without_rows", lambda self, cycle: True)
    assert nodes_of_pods(20, *DEPENDENT) == ["n1", "n3", "n2"]


@OTHERS
def test_node_that_is_freed_when_another_is_filled_is_scored(others: int) -> None:
    harness = one_pod_on_each_node()
    best, good = node("best").label("Absolute", "90"), node("good").label("Absolute", "50")
    harness.add(best, good, node("fair").label("Absolute", "10"), *(node(f"other{i}") for i in range(others)))
    harness.add(pod("running").on("best"), pod("a"))
    harness.run()
    harness.delete_pod("running")
    harness.add(pod("b"))
    harness.run()
    assert harness.assignments == {"a": "good", "b": "best"}
