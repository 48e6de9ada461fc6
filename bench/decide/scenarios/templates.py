"""Templates: many in turn, or a new one for every pod."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.decide.cluster import Cluster, decisions
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.pod_features import Json

COUNTS = (500, 1000, 2000, 10_000)


def templates(cluster: Cluster) -> Iterator[Row]:
    """Yield a row for each number of templates; the warm-up schedules one pod of each."""
    cluster.populate(cluster.size.per_node)
    for number in cluster.scaled_all(COUNTS):
        prepare = decisions(cluster, partial(_pod_of, number))
        yield Row(f"{number:,}", prepare, cluster.confirm, warm_up=number)


def new_template(cluster: Cluster) -> Iterator[Row]:
    """Yield the row of pods with requests of their own."""
    cluster.populate(cluster.size.per_node)
    yield Row(
        "",
        decisions(cluster, lambda i: pod({}, i, {"app": "web"})),
        cluster.confirm,
        per_round=min(100, cluster.size.pods),
    )


def _pod_of(number: int, i: int) -> Json:
    # Templates differ in the image and a little in the requests, so that 10,000 of them leave room on the nodes.
    source = pod({}, i % number % 100, {"app": "web"})
    source["spec"]["containers"][0]["image"] = f"{number}-templates:{i % number}"
    return source
