"""During a resize the maximum of spec, allocated and actuated resources counts, unless the resize is infeasible."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.testing import PodBuilder, pod


def status(name: str, has: dict[str, str] | None, allocated: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a container status."""
    result: dict[str, Any] = {"name": name}
    if has is not None:
        result["resources"] = {"requests": has}
    if allocated is not None:
        result["allocatedResources"] = allocated
    return result


def resizing(reason: str = "", **fields: Any) -> PodBuilder:
    """Return a pod with one container `main` that requests 2 cores, and a status."""
    condition = {"type": "PodResizePending", "status": "True", "reason": reason}
    of = pod().requests(cpu="2")
    return of.status(conditions=[condition] if reason else [], **fields)


@pytest.mark.parametrize(
    ("of", "milli_cpu"),
    [
        pytest.param(resizing(), 2000, id="no status"),
        pytest.param(resizing(containerStatuses=[status("main", {"cpu": "2"}, {"cpu": "2"})]), 2000, id="no resize"),
        pytest.param(resizing(containerStatuses=[status("main", {"cpu": "3"})]), 3000, id="actuated above the spec"),
        pytest.param(
            resizing(containerStatuses=[status("main", {"cpu": "1"}, {"cpu": "4"})]),
            4000,
            id="allocated above the spec",
        ),
        pytest.param(resizing(containerStatuses=[status("main", {"cpu": "1"})]), 2000, id="spec above actuated"),
        pytest.param(resizing("Infeasible", containerStatuses=[status("main", {"cpu": "1"})]), 1000, id="infeasible"),
        pytest.param(resizing("Deferred", containerStatuses=[status("main", {"cpu": "1"})]), 2000, id="deferred"),
        pytest.param(
            resizing(containerStatuses=[status("main", None, {"cpu": "9"})]), 9000, id="allocated, not actuated yet"
        ),
        pytest.param(
            resizing(containerStatuses=[status("other", {"cpu": "9"})]), 2000, id="status of another container"
        ),
    ],
)
def test_effective_requests_of_a_container(of: PodBuilder, milli_cpu: int) -> None:
    requests = of.build().requests
    assert requests.effective["cpu"] == milli_cpu
    assert requests.non_zero["cpu"] == milli_cpu
    assert requests.real["cpu"] == 2000


def test_resize_counts_for_init_containers() -> None:
    more = {"cpu": "5"}
    resources = {"requests": {"cpu": "1"}}
    plain = pod().init_container(name="init", resources=resources).status(initContainerStatuses=[status("init", more)])
    sidecar = (
        pod()
        .init_container(name="init", resources=resources, restartPolicy="Always")
        .status(initContainerStatuses=[status("init", more)])
    )
    assert plain.build().requests.effective["cpu"] == 5000
    assert sidecar.build().requests.effective["cpu"] == 5000


def test_infeasible_resize_without_any_status_leaves_nothing() -> None:
    assert resizing("Infeasible").build().requests.effective.get("cpu", 0) == 0


def test_maximum_is_that_of_the_sums_over_the_containers() -> None:
    of = pod().requests(cpu="1").container(name="other", resources={"requests": {"cpu": "3"}})
    grown = [status("main", {"cpu": "3"}, {"cpu": "3"}), status("other", {"cpu": "1"}, {"cpu": "1"})]
    assert of.status(containerStatuses=grown).build().requests.effective["cpu"] == 4000


@pytest.mark.parametrize(
    ("fields", "milli_cpu"),
    [
        pytest.param({"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "1"}}, 3000, id="both"),
        pytest.param({"resources": {"requests": {"cpu": "3"}}}, 2000, id="not allocated"),
        pytest.param({"resources": {}, "allocatedResources": {"cpu": "3"}}, 2000, id="not actuated"),
    ],
)
def test_status_of_the_pod_stands_for_its_containers(fields: dict[str, Any], milli_cpu: int) -> None:
    assert resizing(**fields).build().requests.effective["cpu"] == milli_cpu


def test_status_that_agrees_with_the_spec_does_not_change_the_signature() -> None:
    stated = {"requests": {"cpu": "2"}}
    running = resizing(resources=stated, allocatedResources=stated["requests"])
    assert running.build().signature is resizing().build().signature


def test_resize_of_pod_level_requests() -> None:
    of = pod().spec(resources={"requests": {"cpu": "2", "memory": "1"}})
    assert of.status(resources={"requests": {"cpu": "3", "memory": "1"}}).build().requests.effective["cpu"] == 3000
    allocated = of.status(resources={"requests": {"cpu": "1"}}, allocatedResources={"cpu": "7"})
    assert allocated.build().requests.effective["cpu"] == 7000
    assert allocated.build().requests.real["cpu"] == 2000


def test_signature_changes_during_a_resize() -> None:
    before, after = resizing(), resizing(containerStatuses=[status("main", {"cpu": "2"})])
    during = resizing(containerStatuses=[status("main", {"cpu": "3"})])
    assert before.build().signature is after.build().signature
    assert before.build().signature is not during.build().signature


def test_sum_of_a_pod_is_rounded_once() -> None:
    of = pod().requests(memory="100m").container(resources={"requests": {"memory": "100m"}})
    assert of.build().requests.real["memory"] == 1
