"""Objects of batch applications as their operators create them, but for schedulerName.

Each builder takes the application's custom resource, which owns the objects, and returns PodGroups and pods with the
operator's labels, annotations, owner references and requests. Every pod requests one cpu.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.e2e.batch import COSCHEDULING, NATIVE, SCHEDULER, VOLCANO
from tests.e2e.client import Json

VOLCANO_GROUP = "scheduling.k8s.io/group-name"
VOLCANO_TASK = "volcano.sh/task-spec"
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
_APPROVED = {"api-approved.kubernetes.io": "unapproved, a stand-in of tests"}
"""Needed in groups that end with k8s.io."""


@dataclass(frozen=True)
class Application:
    """PodGroup and pods of an application."""

    group: Json
    pods: Sequence[Json]
    """Pods that the operator creates at once."""
    executors: Sequence[Json] = ()
    """Pods that the first pod creates when it runs; it owns them."""
    templates: Sequence[Json] = ()
    """Objects that the PodGroup refers to, created before it."""
    driver_is_member: bool = True
    """False if the pods that the operator creates do not belong to the group."""
    lacking: str = "lacks 1 cpu on node"
    """Part of each pod's message if the cluster has one cpu too few."""

    @property
    def cpus(self) -> int:
        """Return the number of cpus that it needs."""
        return len(self.pods) + len(self.executors)


class Operator(NamedTuple):
    """Operator, and the API of the PodGroups that it is configured to create."""

    version: str
    """API version of the custom resource."""
    kind: str
    """Kind of the custom resource."""
    build: Callable[[Json, str], Application]
    """Returns the application of a custom resource, given the API version of the PodGroup."""
    group_version: str

    @property
    def plural(self) -> str:
        """Return the plural of the kind."""
        return f"{self.kind.lower()}s"

    def definition(self) -> Json:
        """Return a CustomResourceDefinition without a schema."""
        group, _, version = self.version.partition("/")
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{group}", "annotations": _APPROVED},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": self.kind, "plural": self.plural, "singular": self.kind.lower()},
                "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
            },
        }


def owned_by(owner: Json) -> list[Json]:
    """Return the owner references of what a controller creates for an object."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    return [{**reference, "uid": owner["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}]


def container() -> Json:
    """Return a container of one cpu and the memory of a small Spark executor."""
    requests = {"cpu": "1", "memory": "896Mi"}
    return {"name": "main", "image": "app:1", "resources": {"requests": requests, "limits": {"memory": "896Mi"}}}


def _pod(name: str, owner: Json, labels: Json, annotations: Json, restart_policy: str = "Never") -> Json:
    references = owned_by(owner) if owner else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": references},
        "spec": {"schedulerName": SCHEDULER, "restartPolicy": restart_policy, "containers": [container()]},
    }


def _labels_of_job(name: str) -> Json:
    """Return the labels of the pods of a Job.

    The Job itself is left out, and the custom resource owns its pods: the real control plane deletes pods of owners
    that do not exist.
    """
    labels = {"controller-uid": f"uid-of-{name}", "job-name": name}
    return labels | {f"batch.kubernetes.io/{key}": value for key, value in labels.items()}


def _members(pods: Sequence[Json], version: str, group: str, task: str = "") -> list[Json]:
    """Return the pods with the reference to their PodGroup that an operator adds."""
    for each in pods:
        if version == VOLCANO:
            each["metadata"]["annotations"] |= {VOLCANO_GROUP: group} | ({VOLCANO_TASK: task} if task else {})
        elif version == COSCHEDULING:
            each["metadata"]["labels"][COSCHEDULING_GROUP] = group
        else:
            each["spec"]["schedulingGroup"] = {"podGroupName": group}
    return list(pods)


def _group(version: str, name: str, owner: Json, spec: Json) -> Json:
    metadata = {"name": name, "ownerReferences": owned_by(owner)}
    status = {"status": {"phase": "Pending"}} if version == VOLCANO else {}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec, **status}


def _min_spec(minimum: int, total: int) -> Json:
    """Return the fields that PodGroups of Volcano and of scheduler-plugins have in common."""
    return {"minMember": minimum, "minResources": {"cpu": str(total), "memory": f"{total * 896}Mi"}}


def _workload(owner: Json, name: str, template: str, minimum: int) -> tuple[Json, Json]:
    """Return a Workload, and the spec of the PodGroup that is made from its template."""
    group, _, _ = owner["apiVersion"].partition("/")
    policy = {"gang": {"minCount": minimum}}
    reference = {"apiGroup": group, "kind": owner["kind"], "name": owner["metadata"]["name"]}
    workload = {
        "apiVersion": NATIVE,
        "kind": "Workload",
        "metadata": {"name": name, "ownerReferences": owned_by(owner)},
        "spec": {
            "controllerRef": reference,
            "podGroupTemplates": [{"name": template, "schedulingPolicy": policy}],
        },
    }
    source = {"workloadName": name, "templateName": template}
    return workload, {"workloadRef": source, "schedulingPolicy": policy}


def spark_application(app: Json, version: str) -> Application:
    """Spark operator: the driver creates the executors. The group of the native API has the executors only."""
    name = app["metadata"]["name"]
    labels = {"spark-app-name": name, "spark-app-selector": f"spark-{name}", "sparkoperator.k8s.io/app-name": name}
    launched = {"sparkoperator.k8s.io/launched-by-spark-operator": "true", "sparkoperator.k8s.io/submission-id": "s1"}
    driver = _pod(f"{name}-driver", app, {**labels, **launched, "spark-role": "driver"}, {})
    executors = [
        _pod(f"{name}-exec-{i}", {}, {**labels, "spark-role": "executor", "spark-exec-id": str(i)}, {}) for i in (1, 2)
    ]
    if version == NATIVE:
        workload, spec = _workload(app, name, "spark-gang", 2)
        group = _group(version, f"{name}-s1", app, spec)
        members = _members(executors, version, f"{name}-s1")
        return Application(group, [driver], members, [workload], driver_is_member=False)
    group_name = f"spark-{name}-pg"
    group = _group(version, group_name, app, _min_spec(1, 3))
    [driver, *executors] = _members([driver, *executors], version, group_name)
    return Application(group, [driver], executors, lacking="needs 3 cpu (2 free)")


def ray_cluster(cluster: Json, version: str) -> Application:
    """KubeRay: head and workers are one group."""
    name = cluster["metadata"]["name"]
    labels = {"ray.io/cluster": name, "ray.io/is-ray-node": "yes", "app.kubernetes.io/created-by": "kuberay-operator"}

    def ray_pod(suffix: str, type_: str, group: str) -> Json:
        own = {"ray.io/node-type": type_, "ray.io/group": group, "ray.io/identifier": f"{name}-{type_}"}
        return _pod(f"{name}-{suffix}", cluster, {**labels, **own}, {}, "Always")

    head = ray_pod("head", "head", "headgroup")
    workers = [ray_pod(f"small-worker-{i}", "worker", "small") for i in "abc"]
    if version == NATIVE:
        workload, spec = _workload(cluster, name, "cluster", 4)
        group = _group(version, f"{name}-cluster", cluster, spec)
        return Application(group, _members([head, *workers], version, f"{name}-cluster"), templates=[workload])
    group_name = f"ray-{name}-pg" if version == VOLCANO else name
    head, *_ = _members([head], version, group_name, "headgroup")
    return Application(
        _group(version, group_name, cluster, _min_spec(4, 4)),
        [head, *_members(workers, version, group_name, "small")],
        lacking="needs 4 cpu (3 free)",
    )


def pytorch_job(job: Json, version: str) -> Application:
    """Training operator of Kubeflow: master and workers are one group."""
    name = job["metadata"]["name"]

    def replica(type_: str, index: int) -> Json:
        labels = {
            "training.kubeflow.org/job-name": name,
            "training.kubeflow.org/operator-name": "pytorchjob-controller",
            "training.kubeflow.org/replica-type": type_,
            "training.kubeflow.org/replica-index": str(index),
        }
        role = {"training.kubeflow.org/job-role": "master"} if type_ == "master" else {}
        return _pod(f"{name}-{type_}-{index}", job, {**labels, **role}, {})

    [master] = _members([replica("master", 0)], version, name, "master")
    workers = _members([replica("worker", i) for i in range(3)], version, name, "worker")
    spec = _min_spec(4, 4)
    spec |= {"queue": "default"} if version == VOLCANO else {"scheduleTimeoutSeconds": 60}
    return Application(_group(version, name, job, spec), [master, *workers], lacking="needs 4 cpu (3 free)")


def mpi_job(job: Json, version: str) -> Application:
    """MPI operator: launcher and workers are one group; a Job creates the launcher, which its kubelet restarts."""
    name = job["metadata"]["name"]
    labels = {"training.kubeflow.org/job-name": name, "training.kubeflow.org/operator-name": "mpi-operator"}
    workers = [
        _pod(
            f"{name}-worker-{i}",
            job,
            {
                **labels,
                "training.kubeflow.org/job-role": "worker",
                "training.kubeflow.org/replica-index": str(i),
            },
            {},
        )
        for i in range(2)
    ]
    launcher_labels = {**labels, **_labels_of_job(f"{name}-launcher"), "training.kubeflow.org/job-role": "launcher"}
    launcher = _pod(f"{name}-launcher-x7k2p", job, launcher_labels, {}, "OnFailure")
    spec = _min_spec(3, 3) | ({} if version == VOLCANO else {"scheduleTimeoutSeconds": 0})
    members = _members([*workers, launcher], version, name)
    return Application(_group(version, name, job, spec), members, lacking="needs 3 cpu (2 free)")


def train_job(train: Json, version: str) -> Application:
    """Kubeflow Trainer: a JobSet with a Job of all nodes, which is one group."""
    name = train["metadata"]["name"]
    job_set = {
        "jobset-name": name,
        "jobset-uid": f"uid-of-{name}",
        "replicatedjob-name": "node",
        "replicatedjob-replicas": "1",
        "global-replicas": "1",
        "group-name": "default",
        "group-replicas": "1",
        "job-global-index": "0",
        "job-group-index": "0",
        "job-index": "0",
        "job-key": "0174938cd5a8b7fe92412bbddce2d27482539032",
        "restart-attempt": "0",
    }
    shared = {f"jobset.sigs.k8s.io/{key}": value for key, value in job_set.items()}
    index = "batch.kubernetes.io/job-completion-index"
    pods = [
        _pod(
            f"{name}-node-0-{i}-z7vxr",
            train,
            {**shared, **_labels_of_job(f"{name}-node-0"), "jobset.sigs.k8s.io/priority": "0", index: str(i)},
            {**shared, index: str(i)},
            "OnFailure",
        )
        for i in range(4)
    ]
    spec = _min_spec(4, 4) | ({} if version == VOLCANO else {"scheduleTimeoutSeconds": 60})
    members = _members(pods, version, name)
    return Application(_group(version, name, train, spec), members, lacking="needs 4 cpu (3 free)")


def volcano_job(job: Json, version: str) -> Application:
    """Volcano's Job: a minimum for each task, and all that ResourceQuotas count as minResources."""
    name = job["metadata"]["name"]
    group_name = f"{name}-{job['metadata']['uid']}"

    def task(kind: str, index: int) -> Json:
        labels = {"volcano.sh/job-name": name, "volcano.sh/queue-name": "default", VOLCANO_TASK: kind}
        annotations = {
            "volcano.sh/job-name": name,
            "volcano.sh/job-version": "0",
            "volcano.sh/queue-name": "default",
            "volcano.sh/template-uid": f"{name}-{kind}",
        }
        return _pod(f"{name}-{kind}-{index}", job, labels, annotations, "OnFailure")

    counted = {"cpu": "4", "requests.cpu": "4", "limits.cpu": "4", "memory": "3584Mi", "requests.memory": "3584Mi"}
    spec = {
        "minMember": 4,
        "minTaskMember": {"ps": 1, "worker": 3},
        "queue": "default",
        "minResources": {**counted, "limits.memory": "3584Mi", "pods": "4", "count/pods": "4"},
    }
    servers = _members([task("ps", 0)], version, group_name, "ps")
    workers = _members([task("worker", i) for i in range(3)], version, group_name, "worker")
    group = _group(version, group_name, job, spec)
    return Application(group, [*servers, *workers], lacking="needs 4 cpu (3 free)")


OPERATORS = {
    "Volcano Job": Operator("batch.volcano.sh/v1alpha1", "Job", volcano_job, VOLCANO),
    **{
        f"Spark operator, {name}": Operator("sparkoperator.k8s.io/v1beta2", "SparkApplication", spark_application, api)
        for name, api in (("Volcano", VOLCANO), ("scheduler-plugins", COSCHEDULING), ("native", NATIVE))
    },
    **{
        f"KubeRay, {name}": Operator("ray.io/v1", "RayCluster", ray_cluster, api)
        for name, api in (("Volcano", VOLCANO), ("scheduler-plugins", COSCHEDULING), ("native", NATIVE))
    },
    **{
        f"training operator, {name}": Operator("kubeflow.org/v1", "PyTorchJob", pytorch_job, api)
        for name, api in (("Volcano", VOLCANO), ("scheduler-plugins", COSCHEDULING))
    },
    **{
        f"Trainer, {name}": Operator("trainer.kubeflow.org/v1alpha1", "TrainJob", train_job, api)
        for name, api in (("Volcano", VOLCANO), ("scheduler-plugins", COSCHEDULING))
    },
    **{
        f"MPI operator, {name}": Operator("kubeflow.org/v2beta1", "MPIJob", mpi_job, api)
        for name, api in (("Volcano", VOLCANO), ("scheduler-plugins", COSCHEDULING))
    },
}
"""By operator and API."""
