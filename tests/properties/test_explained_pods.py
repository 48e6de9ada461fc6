"""Pods that are explained together have the explanations that each has by itself."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from pyscheduler.api import PodObject
from pyscheduler.cli.batch_cluster import BatchCluster, ListedObjects, batch_config
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.dumped_objects import dumped_objects
from pyscheduler.cli.explanation import Explainer, Explanation
from pyscheduler.config.load import from_value
from tests.conformance.generator import draw

Json = dict[str, Any]
_QUEUES: Final = [
    {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}
    for name in ("default", "research")
]


def clustered(seed: int) -> tuple[list[Json], Json | None]:
    """Return the objects of a random cluster, in half of them with pod groups and queues, and the configuration."""
    case, rng = draw(seed).document, Random(seed)
    objects = list(case["objects"])
    if seed % 2:
        return objects, case.get("config")
    for each in objects:
        if each["kind"] == "Pod" and rng.random() < 0.7:
            group = {"pyscheduler.io/pod-group": f"g{rng.randrange(2)}", "pyscheduler.io/pod-group-min-count": "2"}
            each["metadata"].setdefault("annotations", {}).update(
                group, **{"pyscheduler.io/pod-group-queue": "research"}
            )
    return [*_QUEUES, *objects], None


def explained_alone(explainer: Explainer, pod: PodObject) -> Explanation | str:
    try:
        return explainer.explain([pod])[0]
    except CommandProblem as problem:
        return str(problem)


@pytest.mark.parametrize("seed", range(60))
def test_pods_explained_together_are_explained_as_each_by_itself(seed: int, tmp_path: Path) -> None:
    objects, value = clustered(seed)
    config = from_value(value) if value else None
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    kinds = BatchCluster(config or batch_config("default-scheduler")).watched
    listed: ListedObjects = dumped_objects([dump], kinds)
    alone = {id(pod): explained_alone(Explainer(config, listed), pod) for pod in listed.pods}
    readable = [pod for pod in listed.pods if isinstance(alone[id(pod)], Explanation)]
    expected = [alone[id(pod)] for pod in readable]
    together = Explainer(config, listed)
    assert together.explain(readable) == expected
    assert together.explain(readable[::-1]) == expected[::-1]
