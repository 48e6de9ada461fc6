"""ElasticQuotas: they hold for all pods of their namespace, and an invalid one does not open it."""

from __future__ import annotations

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import (
    VOLCANO,
    annotated,
    elastic_quota,
    gang,
    in_namespace,
    in_queue,
    node,
    pod,
    queue,
)

VALID = {"cpu": 2}, {"cpu": 2}
INVALID = {"cpu": 3}, {"cpu": 2}
"""`min` above `max`."""
PROBLEM = "queue x/quota: spec.min[cpu]: Invalid value: 3 cpu: must be at most max, which is 2 cpu"


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


# -- all pods of the namespace, and no others --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["other", "default", "y/quota", "x/none", "missing"])
def test_pods_cannot_leave_the_quota_of_their_namespace(name: str) -> None:
    cluster = Cluster(node("n", 10), queue("other"), elastic_quota("x", *VALID), elastic_quota("y", *VALID))
    cluster.submit(*(in_namespace("x", in_queue(name, pod(f"p{i}"))) for i in range(4)))
    cluster.submit(in_namespace("y", pod("q0")), in_namespace("y", pod("q1")))
    cluster.advance(60)
    assert (bound(cluster, "x"), bound(cluster, "y")) == (2, 2)
    reason, message = reason_and_message(cluster, "x/p3")
    assert reason == "QuotaExceeded"
    assert message.startswith("queue x/quota would exceed its capability of 2 cpu by 1 cpu")


def test_groups_cannot_leave_the_quota_of_their_namespace() -> None:
    cluster = Cluster(node("n", 10), queue("other"), elastic_quota("default", *VALID))
    cluster.submit(*(gang(f"g{i}", 1, api=VOLCANO, queue="other") for i in range(3)))
    cluster.submit(annotated(in_queue("other", pod("p")), pod_group_queue="other"))
    cluster.advance(60)
    assert len(cluster.bindings) == 2


def test_quota_is_kept_from_pods_of_other_namespaces() -> None:
    cluster = Cluster(node("n", 10), elastic_quota("team", *VALID))
    cluster.submit(gang("a", 2, api=VOLCANO, queue="team/quota"), in_queue("team/quota", pod("b")))
    cluster.submit(*(in_namespace("team", pod(f"p{i}")) for i in range(3)))
    cluster.advance(60)
    assert (bound(cluster, "default"), bound(cluster, "team")) == (0, 2)
    message = "queue team/quota holds for pods of namespace team only, not of default"
    assert {*cluster.message("a0", "b").splitlines()} == {message}
    assert reason_and_message(cluster, "default/b") == ("SchedulingGated", message)


def test_running_pods_of_other_namespaces_do_not_count_toward_a_quota() -> None:
    """Pods with spec.nodeName are not scheduled, so nothing could hold them back."""
    cluster = Cluster(node("n", 10), elastic_quota("team", *VALID))
    stray = in_queue("team/quota", pod("stray", 2))
    stray["spec"]["nodeName"] = "n"
    cluster.submit(stray)
    cluster.submit(*(in_namespace("team", pod(f"p{i}")) for i in range(2)))
    cluster.advance(60)
    assert bound(cluster, "team") == 2


def test_pods_preempt_within_the_quota_of_their_namespace_whatever_queue_they_name() -> None:
    cluster = Cluster(node("n", 10), queue("other"), elastic_quota("x", *VALID))
    cluster.submit(in_queue("other", pod("elsewhere")))
    cluster.submit(*(in_namespace("x", in_queue("other", pod(f"low{i}"))) for i in range(2)))
    cluster.submit(in_namespace("x", pod("high", priority=10)))
    cluster.advance(60)
    assert "x/high" in cluster.bindings
    assert [key.partition("/")[0] for _, key in cluster.evictions] == ["x"]
