"""Room that ending pods leave is an upper bound of what fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyscheduler.core.pod_groups.freed_room import FreedRoom
from pyscheduler.core.pod_groups.room import least_requests, requests_in_columns
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import node, pod


def freed_room(*members: dict[str, Any]) -> FreedRoom:
    """Return the room for members on two nodes with 1 cpu free on the first, which three pods of 1 cpu leave."""
    cluster = Cluster(node("n0", 3, gpu=1), node("n1", 1))
    for i, name in enumerate(("n0", "n0", "n1")):
        running = pod(f"r{i}")
        running["spec"]["nodeName"] = name
        cluster.apply(running)
    for i, requests in enumerate(members):
        cluster.apply(pod(f"m{i}", **requests))
    context = cluster.machine.context
    pods = {each.name: each for each in context.pods.values()}
    least = least_requests(pods[f"m{i}"] for i in range(len(members)))
    requests = requests_in_columns((pods[name].requests.effective for name in ("r2", "r0", "r1")), least)
    return FreedRoom(context.state.table(), least, np.array([1, 0, 0]), requests)


@pytest.mark.parametrize(("ended", "expected"), [(0, [1, 0]), (1, [1, 1]), (2, [2, 1]), (3, [3, 1])])
def test_members_after_a_number_of_ends(ended: int, expected: list[int]) -> None:
    assert freed_room({"cpu": 1}).members(ended).tolist() == expected


@pytest.mark.parametrize(
    ("members", "needed", "expected"),
    [
        pytest.param([{"cpu": 1}], 1, 0, id="free already"),
        pytest.param([{"cpu": 1}], 2, 1, id="one end"),
        pytest.param([{"cpu": 1}], 5, None, id="more than the cluster has"),
        pytest.param([{"cpu": 2}], 1, 2, id="on one node"),
        pytest.param([{"cpu": 2}, {"cpu": 1}], 2, 1, id="the smallest member counts"),
        pytest.param([{"cpu": 1, "gpu": 1}], 2, None, id="all resources count"),
    ],
)
def test_fewest_ends(members: list[dict[str, Any]], needed: int, expected: int | None) -> None:
    assert freed_room(*members).fewest(needed) == expected
