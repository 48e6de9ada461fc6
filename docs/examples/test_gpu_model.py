"""Tests of a plugin: a scenario with the real scheduler core in virtual time, checks of both forms and of the cache."""

from gpu_model import GpuModel

from pyscheduler.testing import Harness, assert_cache_agrees, assert_forms_agree, node, pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins:
      filter: {enabled: [{name: "gpu_model:GpuModel"}]}
"""


def test_pod_is_scheduled_when_node_with_its_model_is_added() -> None:
    harness = Harness(CONFIG)
    harness.add(node("n1").label("gpu-model", "t4"), pod("train").label("gpu-model", "a100"))
    harness.run()
    assert harness.pending_message("train").startswith("0/1 nodes are available: 1 node(s) had another GPU model.")

    harness.add(node("n2").label("gpu-model", "a100"))  # this event requeues the pod
    harness.advance(2)  # longer than the backoff of one second
    assert harness.assignments == {"train": "n2"}


def test_both_forms_agree() -> None:
    plugin = GpuModel(GpuModel.Args(), Harness().handle)
    nodes = [node("n1").label("gpu-model", "t4").build(), node("n2").build()]
    for builder in (pod("any"), pod("train").label("gpu-model", "t4")):
        assert_forms_agree(plugin, builder.build(), nodes)


def test_cached_results_follow_a_changed_label() -> None:
    harness = Harness(CONFIG)
    harness.add(node("n1").label("gpu-model", "t4"), node("n2"))
    pods = [pod("any"), pod("train").label("gpu-model", "t4")]
    assert_cache_agrees(harness, *pods)
    harness.add(node("n1").label("gpu-model", "a100"), node("n2").label("gpu-model", "t4"))
    assert_cache_agrees(harness, *pods)
