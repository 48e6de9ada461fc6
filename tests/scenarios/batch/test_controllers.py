"""Groups that workload controllers declare: by objects of their own, or by annotations of their pods."""

from __future__ import annotations

from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import NATIVE, Gang, Manifest, annotated, node, pod, slots


def owned(manifest: Manifest, kind: str, name: str, uid: str = "1") -> Manifest:
    """Return an object that a controller has created."""
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": uid, "controller": True}
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


def job_of_kubernetes(name: str, parallelism: int, scheduling: Manifest) -> list[Manifest]:
    """Return what the Job controller creates for a Job with `spec.scheduling` (gate WorkloadWithJob), pods last.

    The minimum is the parallelism of the Job, which the controller keeps in step.
    """
    policy = {"schedulingPolicy": {"gang": {"minCount": parallelism}}, **scheduling}
    template = {"name": f"{name}-pgt-0", **policy}
    workload = {
        "apiVersion": NATIVE,
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": name},
            "podGroupTemplates": [template],
        },
    }
    reference = {"workloadName": name, "templateName": template["name"]}
    group = {"apiVersion": NATIVE, "kind": "PodGroup", "metadata": {"name": f"{name}-pg"}}
    objects = [workload, {**group, "spec": {"workloadRef": reference, **policy}}]
    pods = [pod(f"{name}-{i}") for i in range(parallelism)]
    for each in pods:
        each["spec"]["schedulingGroup"] = {"podGroupName": f"{name}-pg"}
    return [owned(each, "Job", name) for each in (*objects, *pods)]


def test_job_with_scheduling_starts_in_one_domain_or_not_at_all() -> None:
    constraints = {"topology": [{"key": "rack"}]}
    job = job_of_kubernetes("train", 3, {"schedulingConstraints": constraints, "disruptionMode": {"all": {}}})
    cluster = Cluster(*(node(f"n{i}", labels={"rack": f"r{i // 2}"}) for i in range(4)))
    cluster.submit(*job)
    cluster.advance(60)
    assert cluster.bindings == {}
    cluster.submit(node("n4", labels={"rack": "r1"}))
    cluster.advance(60)
    assert sorted(cluster.bindings.values()) == ["n2", "n3", "n4"]


def test_job_with_scheduling_starts_once_its_parallelism_is_lowered() -> None:
    cluster = Cluster(*slots(2))
    cluster.submit(*job_of_kubernetes("train", 3, {}))
    cluster.advance(10)
    assert cluster.bindings == {}
    _, group, *pods = job_of_kubernetes("train", 2, {})
    cluster.delete("Pod", "train-2")
    cluster.submit(group, *pods)
    cluster.advance(10)
    assert len(cluster.bindings) == 2


def test_pods_of_a_job_with_a_minimum_start_together() -> None:
    cluster = Cluster(*slots(2))
    members = [owned(annotated(pod(f"train-{i}"), pod_group_min_count="3"), "Job", "train") for i in range(3)]
    cluster.declare(Gang("train", 3, members, []))
    cluster.submit(*members)
    cluster.advance(10)
    assert cluster.message("train-0").startswith("pod group default/Job/train does not fit: 2 of 3 required pods")
    cluster.submit(*slots(3))
    cluster.advance(10)
    assert cluster.members("train") == 3


def test_pods_of_a_replaced_job_do_not_count_for_its_successor() -> None:
    cluster = Cluster(*slots(4))
    first = [owned(annotated(pod(f"old-{i}"), pod_group_min_count="2"), "Job", "train", "1") for i in range(2)]
    second = [owned(annotated(pod(f"new-{i}"), pod_group_min_count="2"), "Job", "train", "2") for i in range(2)]
    cluster.submit(*first)
    cluster.submit(second[0])
    cluster.advance(10)
    assert cluster.members("new") == 0
    cluster.submit(second[1])
    assert cluster.members("new") == 2


def test_all_jobs_of_a_job_set_start_together() -> None:
    cluster = Cluster(*slots(3))
    labels = {"jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/jobset-uid": "1234"}
    members = [owned(annotated(pod(f"js-{i}"), pod_group_min_count="4"), "Job", f"js-{i % 2}") for i in range(4)]
    for each in members:
        each["metadata"]["labels"] = labels
    cluster.submit(*members)
    cluster.advance(10)
    assert cluster.bindings == {}
    assert cluster.message("js-0").startswith("pod group default/JobSet/js does not fit: 3 of 4 required pods")
    cluster.submit(*slots(4))
    cluster.advance(10)
    assert len(cluster.bindings) == 4
