"""Pod requests: containers, init containers, sidecars, pod-level requests and overhead."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api.resources import amount, is_extended, is_scalar, quantity
from pyscheduler.testing import PodBuilder, pod

MIB = 1024 * 1024


def requests(**amounts: str) -> dict[str, Any]:
    return {"resources": {"requests": amounts}}


def sidecar(**amounts: str) -> dict[str, Any]:
    return {**requests(**amounts), "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("of", "cpu"),
    [
        pytest.param(pod().requests(cpu="1").container(**requests(cpu="2")), 3000, id="containers are summed"),
        pytest.param(pod().requests(cpu="3").init_container(**requests(cpu="2")), 3000, id="smaller init container"),
        pytest.param(pod().requests(cpu="1").init_container(**requests(cpu="2")), 2000, id="larger init container"),
        pytest.param(
            pod().init_container(**requests(cpu="2")).init_container(**requests(cpu="5")),
            5000,
            id="maximum of the init containers",
        ),
        pytest.param(pod().requests(cpu="1").init_container(**sidecar(cpu="2")), 3000, id="sidecar is added"),
        pytest.param(
            pod().requests(cpu="1").init_container(**sidecar(cpu="2")).init_container(**requests(cpu="4")),
            6000,
            id="init container after a sidecar",
        ),
        pytest.param(
            pod().requests(cpu="1").init_container(**requests(cpu="4")).init_container(**sidecar(cpu="2")),
            4000,
            id="init container before a sidecar",
        ),
        pytest.param(pod().requests(cpu="1").spec(overhead={"cpu": "100m"}), 1100, id="overhead is added"),
        pytest.param(
            pod().requests(cpu="1").spec(resources={"requests": {"cpu": "5"}}, overhead={"cpu": "1"}),
            6000,
            id="pod-level requests replace the sum, not the overhead",
        ),
        pytest.param(
            pod().requests(cpu="1").spec(resources={"limits": {"cpu": "5"}}), 1000, id="pod-level limits do not count"
        ),
        pytest.param(pod().limits(cpu="2"), 0, id="limits do not count"),
    ],
)
def test_requests_of_the_spec(of: PodBuilder, cpu: int) -> None:
    assert of.build().requests.real.get("cpu", 0) == cpu


def test_pod_level_requests_are_limited_to_cpu_memory_and_huge_pages() -> None:
    of = pod().request("x.io/y", "1").spec(resources={"requests": {"x.io/y": "9", "hugepages-2Mi": "4Mi"}})
    assert of.build().requests.real == {"x.io/y": 1, "hugepages-2Mi": 4 * MIB}


@pytest.mark.parametrize(
    ("of", "non_zero", "scored"),
    [
        pytest.param(pod(), (100, 200), (100, 200), id="defaults without requests"),
        pytest.param(pod().requests(cpu="0"), (0, 200), (0, 200), id="request of 0 gets no default"),
        pytest.param(pod().requests(cpu="2").container(), (2100, 400), (2100, 400), id="default per container"),
        pytest.param(pod().spec(overhead={"memory": "100Mi"}), (100, 300), (100, 300), id="overhead is added"),
        pytest.param(
            pod().spec(resources={"requests": {"cpu": "2", "memory": "1Mi"}}), (2000, 1), (100, 200), id="pod-level"
        ),
        pytest.param(
            pod().container().spec(resources={"requests": {"cpu": "2"}}),
            (2000, 400),
            (200, 400),
            id="defaults only for resources without any request",
        ),
        pytest.param(
            pod().requests(memory="7Mi").container().spec(resources={"requests": {"cpu": "2"}}),
            (2000, 7),
            (200, 207),
            id="pod-level cpu, memory of one container",
        ),
    ],
)
def test_requests_with_defaults_for_scoring(of: PodBuilder, non_zero: tuple[int, int], scored: tuple[int, int]) -> None:
    result = of.build().requests
    assert (result.non_zero["cpu"], result.non_zero["memory"] // MIB) == non_zero
    assert (result.scored["cpu"], result.scored["memory"] // MIB) == scored


@pytest.mark.parametrize(
    ("name", "scalar", "extended"),
    [
        ("cpu", False, False),
        ("pods", False, False),
        ("storage", False, False),
        ("nvidia.com/gpu", True, True),
        ("hugepages-2Mi", True, False),
        ("attachable-volumes-csi-x", True, False),
        ("kubernetes.io/batch", True, False),
        ("node.kubernetes.io/x", True, False),
        ("requests.x.io/y", False, False),
    ],
)
def test_scalar_and_extended_resources(name: str, scalar: bool, extended: bool) -> None:
    assert (is_scalar(name), is_extended(name)) == (scalar, extended)


@pytest.mark.parametrize(
    ("resource", "value", "expected"),
    [
        ("cpu", 500, "500m"),
        ("cpu", 2000, "2"),
        ("cpu", 0, "0"),
        ("memory", 2**30, "1Gi"),
        ("memory", 3 * 2**20 + 1, "3145729"),
        ("memory", 0, "0"),
        ("memory", 7 * 2**60, "7Ei"),
        ("nvidia.com/gpu", 1024, "1024"),
        ("pods", 110, "110"),
    ],
)
def test_quantity_is_parsed_to_the_same_amount(resource: str, value: int, expected: str) -> None:
    assert quantity(resource, value) == expected
    assert amount(resource, expected) == value
