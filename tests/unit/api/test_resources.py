"""What a pod takes from a node: containers, init containers, sidecars, pod-level requests and overhead."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api.resources import is_extended, is_scalar
from pyscheduler.testing import PodBuilder, pod

MIB = 1024 * 1024


def asks(**requests: str) -> dict[str, Any]:
    return {"resources": {"requests": requests}}


def sidecar(**requests: str) -> dict[str, Any]:
    return {**asks(**requests), "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("of", "cpu"),
    [
        pytest.param(pod().requests(cpu="1").container(**asks(cpu="2")), 3000, id="containers are summed"),
        pytest.param(pod().requests(cpu="3").init_container(**asks(cpu="2")), 3000, id="a smaller init container"),
        pytest.param(pod().requests(cpu="1").init_container(**asks(cpu="2")), 2000, id="a larger init container"),
        pytest.param(
            pod().init_container(**asks(cpu="2")).init_container(**asks(cpu="5")), 5000, id="they run one by one"
        ),
        pytest.param(pod().requests(cpu="1").init_container(**sidecar(cpu="2")), 3000, id="a sidecar runs beside"),
        pytest.param(
            pod().requests(cpu="1").init_container(**sidecar(cpu="2")).init_container(**asks(cpu="4")),
            6000,
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            pod().requests(cpu="1").init_container(**asks(cpu="4")).init_container(**sidecar(cpu="2")),
            4000,
            id="but not beside those after it",
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
        pytest.param(pod().limits(cpu="2"), 0, id="a limit is no request"),
    ],
)
def test_real_requests(of: PodBuilder, cpu: int) -> None:
    assert of.build().requests.real.get("cpu", 0) == cpu


def test_only_cpu_memory_and_huge_pages_can_be_asked_for_pod_wide() -> None:
    of = pod().request("x.io/y", "1").spec(resources={"requests": {"x.io/y": "9", "hugepages-2Mi": "4Mi"}})
    assert of.build().requests.real == {"x.io/y": 1, "hugepages-2Mi": 4 * MIB}


@pytest.mark.parametrize(
    ("of", "counted", "scored"),
    [
        pytest.param(pod(), (100, 200), (100, 200), id="defaults where nothing is stated"),
        pytest.param(pod().requests(cpu="0"), (0, 200), (0, 200), id="a stated 0 stays 0"),
        pytest.param(pod().requests(cpu="2").container(), (2100, 400), (2100, 400), id="for each container"),
        pytest.param(pod().spec(overhead={"memory": "100Mi"}), (100, 300), (100, 300), id="overhead on top"),
        pytest.param(
            pod().spec(resources={"requests": {"cpu": "2", "memory": "1Mi"}}), (2000, 1), (100, 200), id="pod-level"
        ),
        pytest.param(
            pod().container().spec(resources={"requests": {"cpu": "2"}}),
            (2000, 400),
            (200, 400),
            id="defaults only for what is stated nowhere",
        ),
        pytest.param(
            pod().requests(memory="7Mi").container().spec(resources={"requests": {"cpu": "2"}}),
            (2000, 7),
            (200, 207),
            id="pod-level cpu, one container states memory",
        ),
    ],
)
def test_what_scores_count(of: PodBuilder, counted: tuple[int, int], scored: tuple[int, int]) -> None:
    requests = of.build().requests
    assert (requests.non_zero["cpu"], requests.non_zero["memory"] // MIB) == counted
    assert (requests.scored["cpu"], requests.scored["memory"] // MIB) == scored


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
def test_kinds_of_resources(name: str, scalar: bool, extended: bool) -> None:
    assert (is_scalar(name), is_extended(name)) == (scalar, extended)
