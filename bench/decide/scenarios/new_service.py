"""New Services: one is created before each decision, for pods of many apps in turn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count

from bench.decide.cluster import Actions, Cluster
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.pod_features import Json
from pyscheduler.core.commands import Command

APPS = 200


def new_service(cluster: Cluster) -> Iterator[Row]:
    """Yield the row of the apps in turn."""
    cluster.populate(cluster.size.per_node)
    apps, numbers = cluster.scaled(APPS), count()

    def prepare(number: int) -> Actions:
        actions = []
        for i in (next(numbers) for _ in range(number)):
            labels = {"app": f"app-{i % apps}"}
            cluster.submit(cluster.new(pod({}, i % apps % 100, labels)))
            actions.append(partial(_create_and_schedule, cluster, i, labels))
        return actions

    yield Row("", prepare, cluster.confirm, warm_up=2 * apps)


def _create_and_schedule(cluster: Cluster, i: int, selector: Json) -> list[Command]:
    meta = {"name": f"service-{i}", "namespace": "default", "uid": f"service-{i}", "resourceVersion": str(i + 1)}
    return cluster.apply("Service", {"metadata": meta, "spec": {"selector": selector}}) + cluster.schedule()
