"""Groups of workloads with pods as their operators create them, labels, annotations and owner references included.

The pods were captured from JobSet, LeaderWorkerSet, KubeRay and the StatefulSet controller; each requests one cpu.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import RACK, Manifest, annotated, node, pod

JOB_SET, LWS = "jobset.sigs.k8s.io", "leaderworkerset.sigs.k8s.io"


def member(name: str, minimum: int, owner: tuple[str, str], labels: dict[str, str], **annotations: str) -> Manifest:
    """Return a pod with its controller, a kind and a name of it."""
    made = annotated(pod(name), pod_group_min_count=str(minimum))
    kind, owner_name = owner
    reference = {"apiVersion": "v1", "kind": kind, "name": owner_name, "uid": f"uid-of-{kind}-{owner_name}"}
    made["metadata"]["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": True}]
    made["metadata"]["labels"] |= labels
    made["metadata"]["annotations"] |= annotations
    return made


def job_set(name: str, minimum: int = 4) -> list[Manifest]:
    """Return the pods of a driver Job and of a Job of three workers."""
    pods = []
    for job, count in (("driver", 1), ("workers", 3)):
        labels = {
            f"{JOB_SET}/jobset-name": name,
            f"{JOB_SET}/jobset-uid": f"uid-of-{name}",
            f"{JOB_SET}/replicatedjob-name": job,
            f"{JOB_SET}/coordinator": f"{name}-driver-0-0.{name}",
            f"{JOB_SET}/job-index": "0",
            f"{JOB_SET}/job-key": f"{name}-{job}-key",
            f"{JOB_SET}/restart-attempt": "0",
            "batch.kubernetes.io/job-name": f"{name}-{job}-0",
        }
        for index in range(count):
            label = "batch.kubernetes.io/job-completion-index"
            pod_labels = {**labels, label: str(index)}
            pods.append(member(f"{name}-{job}-0-{index}-x", minimum, ("Job", f"{name}-{job}-0"), pod_labels))
            pods[-1]["metadata"]["annotations"][label] = str(index)
    return pods


def leader_worker_set(name: str, minimum: int = 4) -> list[Manifest]:
    """Return the leader and the three workers of the first replica; each kind has a StatefulSet of its own."""
    labels = {f"{LWS}/name": name, f"{LWS}/group-index": "0", f"{LWS}/group-key": f"sha1-of-{name}-0"}
    leader = member(f"{name}-0", minimum, ("StatefulSet", name), {**labels, f"{LWS}/worker-index": "0"})
    workers = [
        member(f"{name}-0-{i}", minimum, ("StatefulSet", f"{name}-0"), {**labels, f"{LWS}/worker-index": str(i)})
        for i in (1, 2, 3)
    ]
    for each in workers:
        each["metadata"]["annotations"][f"{LWS}/leader-name"] = f"{name}-0"
    return [leader, *workers]


def ray_cluster(name: str, minimum: int = 4, workers: int = 3) -> list[Manifest]:
    """Return the head and the workers."""
    owner, labels = ("RayCluster", name), {"ray.io/cluster": name, "ray.io/is-ray-node": "yes"}
    head = {**labels, "ray.io/node-type": "head", "ray.io/group": "headgroup"}
    worker = {**labels, "ray.io/node-type": "worker", "ray.io/group": "small"}
    pods = [member(f"{name}-small-worker-{i}", minimum, owner, worker) for i in range(workers)]
    for index, each in enumerate(pods):
        each["metadata"]["labels"]["ray.io/worker-group-replica-index"] = str(index)
    return [member(f"{name}-head", minimum, owner, head), *pods]


def stateful_set(name: str, minimum: int = 4, revision: str = "1") -> list[Manifest]:
    """Return four pods with the revision of the template."""
    owner = ("StatefulSet", name)
    return [
        member(
            f"{name}-{i}",
            minimum,
            owner,
            {"apps.kubernetes.io/pod-index": str(i), "controller-revision-hash": f"{name}-{revision}"},
        )
        for i in range(4)
    ]


@pytest.mark.parametrize("build", [job_set, leader_worker_set, ray_cluster, stateful_set])
def test_workloads_start_whole_one_after_the_other(build: Callable[[str], list[Manifest]]) -> None:
    cluster = Cluster(node("n1", 3), node("n2", 3))
    first, second = build("a"), build("b")
    for one, other in zip(first, second, strict=True):  # two operators create their pods at the same time
        cluster.submit(one, other)
    assert (cluster.members("a-"), cluster.members("b-")) == (4, 0)
    for each in first:
        cluster.delete("Pod", each["metadata"]["name"])
    cluster.advance(60)
    assert (cluster.members("a-"), cluster.members("b-")) == (0, 4)


def test_workers_that_a_larger_template_adds_to_a_running_ray_cluster_are_bound() -> None:
    """KubeRay keeps the pods of the earlier template, with their annotations."""
    cluster = Cluster(node("n", 9))
    cluster.submit(*ray_cluster("r"))
    cluster.submit(*ray_cluster("r", minimum=6, workers=5)[4:])
    cluster.advance(60)
    assert cluster.members("r-") == 6
    cluster.delete("Pod", "r-head")
    cluster.submit(ray_cluster("r", minimum=6, workers=5)[0])
    cluster.advance(60)
    assert cluster.members("r-") == 6


def test_workers_of_a_new_template_wait_until_the_bindings_of_the_earlier_pods_end() -> None:
    cluster = Cluster(node("n", 9))
    cluster.complete_bindings = False
    cluster.submit(*ray_cluster("r"))
    cluster.submit(*ray_cluster("r", minimum=6, workers=5)[4:])
    cluster.advance(5)
    cluster.complete_bindings = True
    for key in list(cluster.pending_bindings):
        cluster.finish_binding(key.partition("/")[2])
    cluster.advance(60)
    assert cluster.members("r-") == 6


def test_rolling_update_to_a_smaller_minimum_goes_on() -> None:
    """The StatefulSet controller replaces the next pod when the new one is ready."""
    cluster = Cluster(node("n", 4))
    cluster.submit(*stateful_set("s"))
    cluster.delete("Pod", "s-3")
    for replaced in stateful_set("s", minimum=3, revision="2")[2::-1]:
        cluster.delete("Pod", replaced["metadata"]["name"])
        cluster.submit(replaced)
        cluster.advance(60)
        assert cluster.members("s-") == 3


def test_set_that_was_scaled_down_grows_again_with_a_smaller_minimum() -> None:
    cluster = Cluster(node("n", 4))
    cluster.submit(*stateful_set("s"))
    for name in ("s-2", "s-3"):
        cluster.delete("Pod", name)
    cluster.submit(stateful_set("s")[2])  # waits: the set has three of four pods
    cluster.advance(60)
    assert cluster.members("s-") == 2
    cluster.delete("Pod", "s-2")
    cluster.advance(60)
    cluster.submit(stateful_set("s", minimum=3, revision="2")[2])
    cluster.advance(60)
    assert cluster.members("s-") == 3


def test_different_minimums_of_pods_that_wait_are_reported() -> None:
    cluster = Cluster(node("n", 9))
    cluster.submit(*ray_cluster("r")[:2], *ray_cluster("r", minimum=3)[2:])
    cluster.advance(60)
    assert cluster.members("r-") == 0
    assert 'different annotations pyscheduler.io/pod-group-min-count: "4" and "3"' in cluster.message("r-head")


def divided_job_set(name: str, jobs: int, keys: str = "batch.kubernetes.io/job-name") -> list[Manifest]:
    """Return the pods of replicas of one replicatedJob with two pods each, which are a group for each Job."""
    pods = []
    for job in range(jobs):
        labels = {
            f"{JOB_SET}/jobset-name": name,
            f"{JOB_SET}/jobset-uid": f"uid-of-{name}",
            f"{JOB_SET}/job-index": str(job),
            "batch.kubernetes.io/job-name": f"{name}-workers-{job}",
        }
        for index in range(2):
            owner = ("Job", f"{name}-workers-{job}")
            pods.append(member(f"{name}-workers-{job}-{index}-x", 2, owner, labels))
            pods[-1]["metadata"]["annotations"]["pyscheduler.io/pod-group-match-label-keys"] = keys
    return pods


def test_each_job_of_a_job_set_is_a_group_if_its_label_is_a_match_label_key() -> None:
    cluster = Cluster(node("n", 5))
    cluster.submit(*divided_job_set("a", jobs=3))
    cluster.advance(60)
    bound = [cluster.members(f"a-workers-{job}-") for job in range(3)]
    assert sorted(bound) == [0, 2, 2]
    waiting = bound.index(0)
    assert f"pod group default/JobSet/a/a-workers-{waiting} does not fit" in cluster.message(f"a-workers-{waiting}-0-x")


def test_each_job_of_a_divided_job_set_is_in_one_rack() -> None:
    cluster = Cluster(*(node(f"n{i}", 2, {RACK: f"r{i}"}) for i in range(3)))
    pods = divided_job_set("a", jobs=3)
    for each in pods:
        each["metadata"]["annotations"]["pyscheduler.io/pod-group-required-topology"] = RACK
    cluster.submit(*pods)
    cluster.advance(60)
    nodes = [{cluster.bindings[f"default/a-workers-{job}-{i}-x"] for i in range(2)} for job in range(3)]
    assert [len(each) for each in nodes] == [1, 1, 1]


def test_pods_with_equal_values_of_only_one_of_two_match_label_keys_are_in_different_groups() -> None:
    cluster = Cluster(node("n", 4))
    pods = divided_job_set("a", jobs=1, keys="batch.kubernetes.io/job-name, role")
    for index, each in enumerate(pods):
        each["metadata"]["labels"]["role"] = str(index)
    cluster.submit(*pods)
    cluster.advance(60)
    assert cluster.members("a-") == 0
    assert "pod group default/JobSet/a/a-workers-0/1 has only 1 of the 2 pods" in cluster.message("a-workers-0-1-x")


def test_pod_without_a_match_label_key_is_rejected() -> None:
    cluster = Cluster(node("n", 9))
    cluster.submit(*divided_job_set("a", jobs=1, keys="role"))
    cluster.advance(60)
    assert cluster.members("a-") == 0
    message = cluster.message("a-workers-0-0-x")
    assert "annotation pyscheduler.io/pod-group-match-label-keys requires label role" in message
