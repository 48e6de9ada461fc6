"""BinPack: Volcano's formula for how full a node is of what the pod requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import Cycle, Skip
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.core.state import ClusterState
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, assert_cache_agrees, assert_forms_agree, node, pod
from pyscheduler_plugins.bin_pack import BinPack, BinPackArgs, ResourceWeight

GPU = "nvidia.com/gpu"
WEIGHTS = {"cpu": 5, "memory": 1, GPU: 2}
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    score:
      enabled: [{name: BinPack, weight: 10}]
      disabled: [{name: "*"}]
"""


def plugin(**weights: int) -> BinPack:
    resources = tuple(ResourceWeight(name, weight) for name, weight in (weights or WEIGHTS).items())
    return BinPack(BinPackArgs(resources), empty_handle())


def score(incoming: PodBuilder, target: NodeBuilder, *running: PodBuilder) -> int | None:
    """Return the score of the only node; None if the plugin skips the pod."""
    state = ClusterState()
    state.set_node(target.build())
    for each in running:
        state.add_pod(each.on("n").build())
    cycle, table, bin_pack = Cycle(0.0, "default-scheduler", "u"), state.table(), plugin()
    if isinstance(bin_pack.pre_score(cycle, incoming.build(), table), Skip):
        return None
    return bin_pack.score(cycle, incoming.build(), table[0])


def gpu_node() -> NodeBuilder:
    return node("n", cpu="10", memory="10Gi").has(GPU, "4")


@pytest.mark.parametrize(
    ("incoming", "running", "expected"),
    [
        pytest.param(pod("p").requests(cpu="5"), (), 50, id="one resource: its share"),
        pytest.param(pod("p").requests(cpu="5"), (pod("r").requests(cpu="2"),), 70, id="running pods count"),
        pytest.param(pod("p").requests(cpu="5", memory="2Gi"), (), 45, id="weighted mean: (5*50 + 1*20) / 6"),
        pytest.param(pod("p").requests(cpu="1").request(GPU, "2"), (), 21, id="GPUs: (5*10 + 2*50) / 7, rounded down"),
        pytest.param(pod("p").requests(cpu="5"), (pod("r").requests(memory="9Gi"),), 50, id="only what is requested"),
        pytest.param(pod("p").requests(cpu="5", memory="11Gi"), (), 41, id="an exceeded resource counts 0: 5*50 / 6"),
        pytest.param(pod("p").requests(cpu="5").request("example.com/fpga", "1"), (), 50, id="no weight: not counted"),
        pytest.param(pod("p").request("example.com/fpga", "1"), (), None, id="nothing to score"),
        pytest.param(pod("p"), (), None, id="no request"),
    ],
)
def test_score(incoming: PodBuilder, running: tuple[PodBuilder, ...], expected: int | None) -> None:
    assert score(incoming, gpu_node(), *running) == expected


def test_resource_that_the_node_lacks_counts_as_zero() -> None:
    assert score(pod("p").requests(cpu="5").request(GPU, "1"), node("n", cpu="10")) == 35


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        pytest.param((ResourceWeight("", 1),), r"resources\[0\].name: must not be empty", id="name"),
        pytest.param((ResourceWeight("cpu", 0),), r"resources\[0\].weight: must be at least 1", id="zero"),
        pytest.param((ResourceWeight("cpu"), ResourceWeight("cpu")), r"resources\[1\].name.*twice", id="twice"),
    ],
)
def test_invalid_arguments_are_rejected(resources: tuple[ResourceWeight, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BinPackArgs(resources)


amounts = st.one_of(st.integers(0, 10), st.sampled_from([2**53 + 1, 2**62, 2**63 - 1]))


@given(
    capacities=st.lists(st.tuples(amounts, amounts), min_size=1, max_size=4),
    used=st.tuples(amounts, amounts),
    request=st.tuples(amounts, amounts),
)
def test_forms_agree(capacities: list[tuple[int, int]], used: tuple[int, int], request: tuple[int, int]) -> None:
    nodes = [node(f"n{i}", cpu="4").has("memory", str(m)).has(GPU, str(g)) for i, (m, g) in enumerate(capacities)]
    running = pod("r").requests(memory=str(used[0])).request(GPU, str(used[1])).on("n0").build()
    incoming = pod("p").requests(cpu="1", memory=str(request[0])).request(GPU, str(request[1])).build()
    assert_forms_agree(plugin(), incoming, [each.build() for each in nodes], [running])


def test_pods_fill_one_node_after_the_other() -> None:
    harness = Harness(CONFIG)
    harness.add(*(node(f"n{i}", cpu="4") for i in range(3)))
    harness.add(*(pod(f"p{i}").requests(cpu="1") for i in range(8)))
    harness.run()
    assert sorted(list(harness.bindings.values()).count(name) for name in ("n0", "n1", "n2")) == [0, 4, 4]


def test_cached_results_follow_pods_and_allocatable_amounts() -> None:
    harness = Harness(CONFIG)
    harness.add(*(node(f"n{i}", cpu="4") for i in range(3)))
    pods = [pod("small").requests(cpu="1"), pod("large").requests(cpu="2"), pod("gpu").request(GPU, "1")]
    assert_cache_agrees(harness, *pods)
    harness.add(pod("running").requests(cpu="1").on("n0"))
    assert_cache_agrees(harness, *pods)
    harness.add(node("n1", cpu="8").has(GPU, "2"))
    assert_cache_agrees(harness, *pods)
