"""A change of an object invalidates the Skip results of the plugins that watch its kind, and of no others."""

from __future__ import annotations

from typing import ClassVar

import pytest

from pyscheduler.api import SKIP_SIGNATURE, Cycle, NodeTable, Pod, PreFilterPlugin, ResourceKind, Skip
from pyscheduler.intree.volumes.objects import CLAIM
from pyscheduler.testing import Harness, node, pod

ZONES = ResourceKind("example.com", "v1", "zones", "Zone", namespaced=False)
QUOTAS = ResourceKind("example.com", "v1", "quotas", "Quota", namespaced=False)


class ReadsZones(PreFilterPlugin):
    """Skip every pod, and record it."""

    name = "ReadsZones"
    watches = (ZONES,)
    pods: ClassVar[list[str]] = []

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip:
        self.pods.append(f"{self.name} {pod.name}")
        return SKIP_SIGNATURE


class ReadsQuotas(ReadsZones):
    name = "ReadsQuotas"
    watches = (QUOTAS,)


_CLASSES = f'[{{name: "{__name__}:ReadsZones"}}, {{name: "{__name__}:ReadsQuotas"}}]'
CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{preFilter: {{enabled: {_CLASSES}}}}}
"""


@pytest.mark.parametrize(
    ("changed", "called_again"),
    [
        pytest.param(None, [], id="no change"),
        pytest.param(ZONES, ["ReadsZones second"], id="zone"),
        pytest.param(QUOTAS, ["ReadsQuotas second"], id="quota"),
        pytest.param(CLAIM, [], id="claim, which in-tree plugins watch"),
    ],
)
@pytest.mark.parametrize("deleted", [False, True], ids=["added", "deleted"])
def test_only_plugins_that_watch_the_kind_are_called_again(
    changed: ResourceKind | None, called_again: list[str], deleted: bool
) -> None:
    harness = Harness(CONFIG)
    harness.add(node("n1"), pod("running").on("n1"))  # the template has placed pods from the beginning
    if changed and deleted:
        harness.add_object(changed, {"metadata": {"name": "a"}})
    harness.add(pod("first"))
    harness.run()
    ReadsZones.pods.clear()
    if changed and deleted:
        harness.remove_object(changed, "a", "")
    elif changed:
        harness.add_object(changed, {"metadata": {"name": "a"}})
    harness.add(pod("second"))
    harness.run()
    assert ReadsZones.pods == called_again
