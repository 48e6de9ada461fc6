"""QoSSort: priority, then QoS class, then queueing time."""

from __future__ import annotations

import pytest

from pyscheduler.api import QueuedPod
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.testing import Harness, PodBuilder, node, pod
from pyscheduler_plugins.qos_sort import QoSSort

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    queueSort: {enabled: [{name: QoSSort}], disabled: [{name: PrioritySort}]}
"""


def best_effort(name: str = "e") -> PodBuilder:
    return pod(name)


def burstable(name: str = "b") -> PodBuilder:
    return pod(name).requests(cpu="100m")


def guaranteed(name: str = "g") -> PodBuilder:
    return pod(name).limits(cpu="100m", memory="1Gi").requests(cpu="100m", memory="1Gi")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param((guaranteed(), 9.0), (burstable(), 1.0), id="Guaranteed before Burstable"),
        pytest.param((burstable(), 9.0), (best_effort(), 1.0), id="Burstable before BestEffort"),
        pytest.param((guaranteed(), 9.0), (best_effort(), 1.0), id="Guaranteed before BestEffort"),
        pytest.param((best_effort().priority(1), 9.0), (guaranteed(), 1.0), id="priority before QoS class"),
        pytest.param((burstable("x"), 1.0), (burstable("y"), 2.0), id="queueing time last"),
    ],
)
def test_sort_order(first: tuple[PodBuilder, float], second: tuple[PodBuilder, float]) -> None:
    sort = QoSSort(QoSSort.Args(), empty_handle())
    a, b = (QueuedPod(of.build(), timestamp=at) for of, at in (first, second))
    assert sort.less(a, b)
    assert not sort.less(b, a)


def test_pods_are_bound_in_sort_order() -> None:
    harness = Harness(CONFIG)
    harness.add(best_effort("e1"), guaranteed("g1"), burstable("b1"), best_effort("e2"), burstable("b2"))
    harness.add(guaranteed("g2"), best_effort("e3").priority(5), node("n"))
    harness.run()
    assert harness.bound_order == ["e3", "g1", "g2", "b1", "b2", "e1", "e2"]
