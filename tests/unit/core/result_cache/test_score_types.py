"""Score plugins may return integers of any width and layout, with the compiled kernels and with their NumPy form."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any, ClassVar

import numpy as np
import pytest

from pyscheduler import kernels
from pyscheduler.api import (
    Cycle,
    NodeEquivalence,
    NodeInfo,
    NodeTable,
    Normalizer,
    Pod,
    PodCount,
    PodSignature,
    Reads,
    ScorePlugin,
    Scores,
)
from pyscheduler.kernels import numpy_form
from pyscheduler.testing import Harness, node, pod

Layout = Callable[[Scores], Any]
NAMES = [f"n{i}" for i in range(30)]
BEST = "n17"


class _Every(PodCount):
    """Count of all pods."""

    terminating = True

    def of(self, signature: PodSignature) -> int:
        return 1

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Every)


class _Typed(ScorePlugin):
    """Prefer node n17 by scores in the layout under test."""

    reads = Reads.OWN_NODE
    layout: ClassVar[Layout] = staticmethod(lambda scores: scores)

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return 7 if node.name == BEST else 2

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        scores: Scores = type(self).layout(np.array([self.score(cycle, pod, node) for node in nodes], np.int64))
        return scores


class InColumn(_Typed):
    """Scores that are cached in a column."""

    name = "InColumn"


class Uncached(_Typed):
    """Scores that are computed at each use."""

    name = "Uncached"
    reads = Reads.OWN_NODE_AND_PODS


class Volatile(_Typed):
    """Scores that are computed for all nodes in each attempt."""

    name = "Volatile"
    reads = Reads.EVERYTHING


class NormalizedWhole(_Typed):
    """Scores with a NormalizeScore of the plugin's own."""

    name = "NormalizedWhole"

    def normalize(self, cycle: Cycle, pod: Pod, scores: Scores) -> Scores:
        normalized: Scores = type(self).layout(scores * 2)
        return normalized


class _Doubles(Normalizer):
    """Double the scores."""

    def span(self, scores: Scores) -> int:
        return 0

    def rescale(self, scores: Scores, span: int) -> Scores:
        doubled: Scores = _Typed.layout(scores * 2)
        return doubled


class Rescaled(_Typed):
    """Scores that a normalizer rescales."""

    name = "Rescaled"
    normalizer = _Doubles()


class ByClass(_Typed):
    """Scores by class of equivalent nodes."""

    name = "ByClass"
    reads = Reads.DOMAINS

    def score_equivalence(self, cycle: Cycle) -> NodeEquivalence:
        return NodeEquivalence(("best",), (_Every(),))

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        domains = nodes.topology("best")
        scores: Scores = type(self).layout(np.where(domains.ids == domains.id_of("yes"), 7, 2))
        return scores


PLUGINS = (InColumn, Uncached, Volatile, NormalizedWhole, Rescaled, ByClass)
LAYOUTS: dict[str, Layout] = {
    "int32": lambda scores: scores.astype(np.int32),
    "uint8": lambda scores: scores.astype(np.uint8),
    "uint64": lambda scores: scores.astype(np.uint64),
    "big endian": lambda scores: scores.astype(">i8"),
    "strided": lambda scores: np.repeat(scores, 2)[::2],
    "reversed": lambda scores: scores[::-1].copy()[::-1],
    "read-only": lambda scores: np.frombuffer(scores.tobytes(), np.int64),
}


@pytest.fixture(params=["kernels in use", "NumPy form"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the scheduler with the kernels in use, or with their NumPy form."""
    if request.param == "kernels in use":
        return
    forms = {n: f for n, f in vars(numpy_form).items() if isinstance(f, FunctionType) and n in kernels.__all__}
    in_use = {getattr(kernels, name): name for name in forms}
    for module in [m for name, m in sys.modules.items() if name.startswith("pyscheduler.") and m is not kernels]:
        for name, value in [*vars(module).items()]:
            if isinstance(value, BuiltinFunctionType) and value in in_use:
                monkeypatch.setattr(module, name, forms[in_use[value]])


def schedule(plugin: type[_Typed], weight: int = 1, best_fits: bool = True) -> Harness:
    """Schedule some pods with the plugin."""
    names = ("PrioritySort", "NodeUnschedulable", "DefaultBinder", f"{__name__}:{plugin.name}")
    enabled = ", ".join(f'{{name: "{name}", weight: {weight}}}' for name in names)
    harness = Harness(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        f'- plugins: {{multiPoint: {{disabled: [{{name: "*"}}], enabled: [{enabled}]}}}}\n'
    )
    nodes = [node(name).label("best", "yes" if name == BEST else "no") for name in NAMES]
    if not best_fits:
        nodes[NAMES.index(BEST)] = nodes[NAMES.index(BEST)].unschedulable()
    harness.add(*nodes)
    for i in range(3):
        harness.add(pod(f"p{i}"))
        harness.run()
    return harness


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("best_fits", [True, False])
@pytest.mark.parametrize("weight", [1, (1 << 30) // 100, (1 << 30) // 100 + 1, (1 << 31) - 1])
@pytest.mark.parametrize("plugin", PLUGINS)
def test_weights_of_any_size_choose_the_best_feasible_node(plugin: type[_Typed], weight: int, best_fits: bool) -> None:
    scheduled = schedule(plugin, weight, best_fits).assignments.values()
    assert len(scheduled) == 3
    assert (set(scheduled) == {BEST}) is best_fits


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("plugin", PLUGINS)
def test_scores_of_any_layout_choose_the_best_node(
    plugin: type[_Typed], layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Typed, "layout", staticmethod(LAYOUTS[layout]))
    assert {*schedule(plugin).assignments.values()} == {BEST}


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(
    ("layout", "shown"),
    [
        (lambda scores: scores > 2, "an array of bool"),
        (lambda scores: scores.astype(np.float64), "an array of float64"),
        (lambda scores: scores.astype(np.uint64) + np.uint64(1 << 63), "a score of 9223372036854775815"),
        (lambda scores: scores[:, None], "scores"),
        (lambda scores: scores.tolist(), "an array of int64"),
    ],
)
@pytest.mark.parametrize("plugin", [InColumn, ByClass])
def test_other_scores_fail_the_attempt_with_a_message(
    plugin: type[_Typed],
    layout: Layout,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(_Typed, "layout", staticmethod(layout))
    assert not schedule(plugin).assignments
    assert shown in caplog.text
