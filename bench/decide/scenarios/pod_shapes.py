"""Pods of many apps, Jobs or DaemonSets in turn, beyond the kinds of `bench/pod_features.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import msgspec

from bench.decide.cluster import Actions, Cluster, decisions
from bench.decide.objects import ZONES, node, pod
from bench.decide.scenario import Row
from bench.decide.scenarios.hard_spread import KEYS, constraints
from bench.pod_features import Json
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.core.commands import Command
from pyscheduler.core.events import NodeChanged

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
PODS_PER_HASH = 50
FIRST_PORT = 20_000


class Shape(NamedTuple):
    """Pods of apps in turn."""

    sentence: str
    pod_of: Callable[[int, int], Json]
    """Pod of an app, by the number of the app and its own number in it."""
    apps: int = 200
    set_up: Callable[[Cluster, int], object] = lambda *_: None
    """Prepare the cluster for this many apps."""
    pods_per_app: int = 2
    """Number of pods of each app that run already."""


def pods_of_shape(cluster: Cluster, shape: Shape) -> Iterator[Row]:
    """Yield the row of a shape."""
    cluster.populate(cluster.size.per_node)
    apps = cluster.scaled(shape.apps) if shape.apps > 1 else 1
    shape.set_up(cluster, apps)
    prepare = decisions(cluster, lambda i: shape.pod_of(i % apps, i // apps))
    pods_per_app = cluster.scaled(shape.pods_per_app) if shape.pods_per_app > 2 else 2
    yield Row("", prepare, cluster.confirm, warm_up=pods_per_app * apps)


def gates_removed(cluster: Cluster) -> Iterator[Row]:
    """Yield the row of pods that lose their scheduling gate and are scheduled."""
    cluster.populate(cluster.size.per_node)
    gated = pod({"schedulingGates": [{"name": "example.com/quota"}]}, 0, {"app": "web"})

    def prepare(number: int) -> Actions:
        pods = [cluster.new(gated) for _ in range(number)]
        for obj in pods:
            cluster.submit(obj)
        return [partial(_remove_gates_and_schedule, cluster, obj) for obj in pods]

    yield Row("", prepare, cluster.confirm)


def _remove_gates_and_schedule(cluster: Cluster, obj: PodObject) -> list[Command]:
    spec = msgspec.structs.replace(obj.spec, scheduling_gates=None)
    return cluster.submit(msgspec.structs.replace(obj, spec=spec)) + cluster.schedule()


def _pod(app: int, fields: Json, **labels: str) -> Json:
    """Return a pod of an app; apps differ in a label and in the requests."""
    return pod(fields, app % 100, {"app": f"app-{app}", **labels})


def _term(selector: Json, key: str, **fields: Json) -> Json:
    return {"labelSelector": {"matchLabels": selector}, "topologyKey": key, **fields}


def _of_daemon_set(app: int, index: int) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [f"node-{index}"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return _pod(app, {"affinity": {"nodeAffinity": {REQUIRED: terms}}})


def _apart_if_possible(app: int, _: int) -> Json:
    term = {"weight": 100, "podAffinityTerm": _term({"app": f"app-{app}"}, HOSTNAME)}
    return _pod(app, {"affinity": {"podAntiAffinity": {PREFERRED: [term]}}})


def _near_database(app: int, _: int) -> Json:
    return _pod(app, {"affinity": {"podAffinity": {REQUIRED: [_term({"app": f"database-{app}"}, ZONE)]}}})


def _near_database_of_team(app: int, _: int) -> Json:
    """Return a pod of one of 20 teams that is placed near a database in the namespaces of another team."""
    term = _term({"app": f"database-{app}"}, ZONE, namespaceSelector={"matchLabels": {"team": "data"}})
    source = _pod(app, {"affinity": {"podAffinity": {REQUIRED: [term]}}})
    source["metadata"]["namespace"] = f"team-{app % 20}"
    return source


def _in_pool(app: int, _: int) -> Json:
    toleration = {"key": "pool", "operator": "Equal", "value": str(app), "effect": "NoSchedule"}
    fields = {"nodeSelector": {"pool": str(app)}, "tolerations": [toleration]}
    return _pod(app, {**fields, "topologySpreadConstraints": constraints({"app": f"app-{app}"}, ZONE)})


def _spread(app: int, _: int) -> Json:
    return _pod(app, {"topologySpreadConstraints": constraints({"app": f"app-{app}"}, *KEYS)})


def _of_new_hash(app: int, index: int) -> Json:
    [constraint] = constraints({"app": f"app-{app}"}, HOSTNAME)
    spread = {"topologySpreadConstraints": [{**constraint, "matchLabelKeys": ["pod-template-hash"]}]}
    return _pod(app, spread, **{"pod-template-hash": str(index // PODS_PER_HASH)})


def _with_host_port(app: int, _: int) -> Json:
    source = _pod(app, {})
    source["spec"]["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": FIRST_PORT + app}]
    return source


def _of_indexed_job(app: int, index: int) -> Json:
    labels = {"batch.kubernetes.io/job-name": f"app-{app}", "batch.kubernetes.io/job-completion-index": str(index)}
    return _pod(app, {}, **labels)


def _of_large_job(app: int, index: int) -> Json:
    """Return a pod of an indexed Job with labels of its own, which prefers hosts without other pods of the Job."""
    source = _of_indexed_job(app, index)
    source["spec"]["affinity"] = _apart_if_possible(app, index)["spec"]["affinity"]
    return source


def _of_cron_job(app: int, index: int) -> Json:
    """Return the pod of a new Job, which has a template of its own."""
    source = _pod(app, {}, **{"batch.kubernetes.io/job-name": f"app-{app}-{index}"})
    source["spec"]["containers"][0]["env"] = [{"name": "RUN", "value": str(index)}]
    source["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": f"app-{app}", "uid": f"{app}-{index}", "controller": True}
    ]
    return source


def _with_preferred_nodes(app: int, _: int) -> Json:
    expression = {"key": ZONE, "operator": "In", "values": [f"zone-{app % ZONES}"]}
    preference = {"weight": 1 + app % 100, "preference": {"matchExpressions": [expression]}}
    return _pod(app, {"affinity": {"nodeAffinity": {PREFERRED: [preference]}}})


def _place_databases(cluster: Cluster, apps: int, namespace: str = "default") -> None:
    for app in range(apps):
        database = pod({}, 0, {"app": f"database-{app}"})
        database["metadata"]["namespace"] = namespace
        cluster.place(cluster.new(database), f"node-{app * 7 % cluster.size.nodes}")


def _place_databases_of_team(cluster: Cluster, apps: int) -> None:
    for name in ("data", *(f"team-{i}" for i in range(20))):
        labels = {"team": name.partition("-")[0]}
        cluster.apply("Namespace", {"metadata": {"name": name, "labels": labels, "resourceVersion": "1"}})
    _place_databases(cluster, apps, "data")


def _taint_pools(cluster: Cluster, pools: int) -> None:
    """Give each node a pool; each pool has nodes in all zones."""
    for i in range(cluster.size.nodes):
        obj, pool = node(i), str((i // ZONES + i) % pools)
        obj["metadata"]["labels"]["pool"] = pool
        obj["spec"] = {"taints": [{"key": "pool", "value": pool, "effect": "NoSchedule"}]}
        cluster.handle(NodeChanged(cluster.now, msgspec.convert(obj, NodeObject)))


def _nominate(cluster: Cluster, _: int) -> None:
    """Make pods preempt the large pod of a node each; their victims do not end."""
    cluster.populate(1, lambda _: pod({}, 0, {"app": "large"}, cpu="40"))
    for _ in range(min(cluster.scaled(300), cluster.size.nodes // 2)):
        cluster.submit(cluster.new(pod({"priority": 1000}, 0, {"app": "preemptor"}, cpu="60")))
    cluster.schedule_all()


SHAPES = {
    "daemon-set": Shape("pods of 10 DaemonSets for one node after the other, by matchFields", _of_daemon_set, 10),
    "preferred-anti-affinity": Shape(
        "200 apps, each with preferred anti-affinity to itself by host", _apart_if_possible
    ),
    "database-affinity": Shape(
        "200 apps, each with affinity to a database's zone", _near_database, 200, _place_databases
    ),
    "namespace-selector": Shape(
        "the same in 20 namespaces, with a namespaceSelector", _near_database_of_team, 200, _place_databases_of_team
    ),
    "hard-spread-apps": Shape("200 apps, each with hard spreading over zones and hosts", _spread),
    "tainted-pools": Shape("hard spreading over the zones of 50 tainted pools in turn", _in_pool, 50, _taint_pools),
    "match-label-keys": Shape("hard spreading by host and pod-template-hash, new every 50 pods", _of_new_hash, 1),
    "host-ports": Shape("200 apps, each with a host port", _with_host_port),
    "indexed-jobs": Shape("pods of 200 indexed Jobs", _of_indexed_job),
    "large-job": Shape("an indexed Job of 4,000 pods that prefer other hosts", _of_large_job, 1, pods_per_app=4000),
    "cron-jobs": Shape("200 CronJobs, each run with a template of its own", _of_cron_job),
    "nominated-pods": Shape(
        "300 preemptors wait for the end of their victims", lambda app, _: _pod(app, {}), 1, _nominate
    ),
    "preferred-node-affinity": Shape("200 apps, each with preferred affinity to a zone", _with_preferred_nodes),
    "priorities": Shape("10 priorities", lambda app, _: pod({"priority": 100 * app}, 0, {"app": "web"}), 10),
}
