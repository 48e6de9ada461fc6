"""Queue and ElasticQuota objects: defaults, all fields, one error for each invalid field."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler_plugins.queues.queue import (
    ELASTIC_QUOTA_POOL,
    DequeueStrategy,
    Queue,
    QueueState,
    elastic_quota_pool,
    read_elastic_quota,
    read_queue,
)


def queue(status: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": spec, "status": status}


def quota(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "q", "namespace": "team"}, "spec": spec}


def test_defaults_of_a_queue() -> None:
    assert read_queue({"metadata": {"name": "a"}}) == Queue(name="a", parent="root", weight=1, reclaimable=True)


def test_all_fields_of_a_queue() -> None:
    read = read_queue(
        queue(
            {"state": "Closing", "running": 3},
            weight=3,
            capability={"cpu": "2500m", "nvidia.com/gpu": 8},
            deserved={"cpu": "2", "memory": "1Gi"},
            guarantee={"resource": {"cpu": 1}},
            reclaimable=False,
            priority=-7,
            parent="eng",
            dequeueStrategy="fifo",
            affinity={"nodeGroupAffinity": {}},
        )
    )
    assert read == Queue(
        name="a",
        parent="eng",
        weight=3,
        capability={"cpu": 2500, "nvidia.com/gpu": 8},
        deserved={"cpu": 2000, "memory": 2**30},
        guarantee={"cpu": 1000},
        reclaimable=False,
        priority=-7,
        dequeue_strategy=DequeueStrategy.FIFO,
        state=QueueState.CLOSING,
    )


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"weight": -1}, "spec.weight: Invalid value: -1: must be an integer from 0 to 65535"),
        ({"weight": 1.5}, "spec.weight: Invalid value: 1.5: must be an integer from 0 to 65535"),
        ({"weight": True}, "spec.weight: Invalid value: true: must be an integer from 0 to 65535"),
        ({"weight": 65_536}, "spec.weight: Invalid value: 65536: must be an integer from 0 to 65535"),
        (
            {"priority": "high"},
            'spec.priority: Invalid value: "high": must be an integer from -2147483648 to 2147483647',
        ),
        ({"parent": 1}, "spec.parent: Invalid value: 1: must be a string"),
        ({"reclaimable": "yes"}, 'spec.reclaimable: Invalid value: "yes": must be true or false'),
        (
            {"dequeueStrategy": "lifo"},
            'spec.dequeueStrategy: Unsupported value: "lifo": supported values: "fifo", "traverse"',
        ),
        ({"capability": [1]}, "spec.capability: Invalid value: [1]: must be an object"),
        (
            {"capability": {"cpu": "2x"}},
            "spec.capability[cpu]: Invalid value: \"2x\": '2x' has the unknown unit 'x';"
            " use m, k, M, G, Ki, Mi, Gi and the like",
        ),
        ({"capability": {"cpu": None}}, "spec.capability[cpu]: Invalid value: null: must be a quantity"),
        ({"deserved": {"cpu": "-1"}}, 'spec.deserved[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
        ({"guarantee": []}, "spec.guarantee: Invalid value: []: must be an object"),
        (
            {"guarantee": {"resource": {"a.b/c": "-2"}}},
            'spec.guarantee.resource[a.b/c]: Invalid value: "-2": must be greater than or equal to 0',
        ),
        (
            {"guarantee": {"resource": {"cpu": 3}}, "deserved": {"cpu": "2500m"}},
            "spec.guarantee.resource[cpu]: Invalid value: 3 cpu: must be at most deserved, which is 2.5 cpu",
        ),
    ],
)
def test_error_names_the_invalid_field_of_a_queue(spec: dict[str, Any], error: str) -> None:
    assert read_queue(queue(**spec)) == error


@pytest.mark.parametrize(
    ("an_object", "error"),
    [
        ({}, "metadata.name: Required value"),
        ({"metadata": []}, "metadata: Invalid value: []: must be an object"),
        ({"metadata": {"name": "a"}, "spec": 3}, "spec: Invalid value: 3: must be an object"),
    ],
)
def test_malformed_queue(an_object: dict[str, Any], error: str) -> None:
    assert read_queue(an_object) == error


@pytest.mark.parametrize("status", [None, {}, {"state": ""}, {"state": "Unknown"}, {"state": 3}])
def test_queue_without_a_valid_state_is_open(status: Any) -> None:
    read = read_queue(queue(status))
    assert isinstance(read, Queue)
    assert read.state is QueueState.OPEN


def test_elastic_quota_guarantees_min_and_limits_to_max() -> None:
    assert read_elastic_quota(quota(min={"cpu": 4, "memory": "1Gi"}, max={"cpu": "6"})) == Queue(
        name="team/q",
        parent=ELASTIC_QUOTA_POOL,
        namespace="team",
        capability={"cpu": 6000},
        deserved={"cpu": 4000, "memory": 2**30},
        guarantee={"cpu": 4000, "memory": 2**30},
    )


@pytest.mark.parametrize(
    ("an_object", "error"),
    [
        (
            quota(min={"cpu": 3}, max={"cpu": 2}),
            "spec.min[cpu]: Invalid value: 3 cpu: must be at most max, which is 2 cpu",
        ),
        (quota(max={"cpu": "-2"}), 'spec.max[cpu]: Invalid value: "-2": must be greater than or equal to 0'),
        ({"metadata": {"name": "q"}}, "metadata.namespace: Required value"),
        ({"metadata": {"namespace": "team"}}, "metadata.name: Required value"),
    ],
)
def test_error_names_the_invalid_field_of_an_elastic_quota(an_object: dict[str, Any], error: str) -> None:
    assert read_elastic_quota(an_object) == error


def test_elastic_quotas_are_limited_to_the_sum_of_their_min() -> None:
    quotas = [read_elastic_quota(quota(min={"cpu": n}, max={"cpu": 9, "memory": "1Gi"})) for n in (2, 3)]
    pool = elastic_quota_pool(each for each in quotas if isinstance(each, Queue))
    assert pool == Queue(name=ELASTIC_QUOTA_POOL, capability={"cpu": 5000})
