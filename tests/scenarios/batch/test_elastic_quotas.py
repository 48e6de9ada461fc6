"""ElasticQuotas: they hold for all pods of their namespace, and an invalid one does not open it."""

from __future__ import annotations

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import Manifest, elastic_quota, node, pod, queue

VALID = {"cpu": 2}, {"cpu": 2}
INVALID = {"cpu": 3}, {"cpu": 2}
"""`min` above `max`."""
PROBLEM = "queue x/quota: spec.min[cpu]: Invalid value: 3: must be at most max, which is 2"


def in_namespace(namespace: str, manifest: Manifest) -> Manifest:
    """Return a pod in a namespace."""
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def bound(cluster: Cluster, namespace: str) -> int:
    """Return the number of pods of a namespace that have a node."""
    return sum(key.startswith(f"{namespace}/") for key in cluster.bindings)


def reason_and_message(cluster: Cluster, key: str) -> tuple[str, str]:
    condition = cluster.condition("Pod", key, "PodScheduled")
    assert condition is not None
    return condition["reason"], condition["message"]


# -- invalid quotas ----------------------------------------------------------------------------------------------------


def test_pods_wait_while_the_quota_of_their_namespace_is_invalid() -> None:
    cluster = Cluster(node("n", 10), elastic_quota("x", *INVALID))
    cluster.submit(*(in_namespace("x", pod(f"p{i}")) for i in range(3)), in_namespace("y", pod("q0")))
    cluster.advance(60)
    assert (bound(cluster, "x"), bound(cluster, "y")) == (0, 1)
    assert reason_and_message(cluster, "x/p0") == ("SchedulingGated", PROBLEM)
    cluster.submit(elastic_quota("x", *VALID))
    cluster.advance(60)
    assert bound(cluster, "x") == 2


def test_quota_that_becomes_invalid_starts_no_more_pods() -> None:
    cluster = Cluster(node("n", 10), elastic_quota("x", *VALID), in_namespace("x", pod("p0")))
    cluster.run()
    cluster.submit(elastic_quota("x", *INVALID))
    cluster.submit(*(in_namespace("x", pod(f"p{i}")) for i in range(1, 4)))
    cluster.restart()
    cluster.advance(60)
    assert bound(cluster, "x") == 1
    assert reason_and_message(cluster, "x/p1") == ("SchedulingGated", PROBLEM)
    cluster.submit(elastic_quota("x", *VALID))
    cluster.advance(60)
    assert bound(cluster, "x") == 2


def test_invalid_root_starts_no_pods() -> None:
    cluster = Cluster(node("n", 10), queue("root", capability={"cpu": -1}))
    cluster.submit(pod("p0"))
    cluster.advance(60)
    assert cluster.bindings == {}
    assert cluster.message("p0").startswith("queue root: spec.capability[cpu]: Invalid value: ")
