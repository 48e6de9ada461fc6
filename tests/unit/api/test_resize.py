"""A pod whose resize is under way holds the largest of what it wants, was allocated and has; unless it cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.testing import PodBuilder, pod


def status(name: str, has: dict[str, str] | None, allocated: dict[str, str] | None = None) -> dict[str, Any]:
    """What the kubelet says of a container."""
    said: dict[str, Any] = {"name": name}
    if has is not None:
        said["resources"] = {"requests": has}
    if allocated is not None:
        said["allocatedResources"] = allocated
    return said


def resizing(reason: str = "", **fields: Any) -> PodBuilder:
    """A pod of one container `main` that asks for 2 cores, with a status."""
    condition = {"type": "PodResizePending", "status": "True", "reason": reason}
    of = pod().requests(cpu="2")
    return of.status(conditions=[condition] if reason else [], **fields)


@pytest.mark.parametrize(
    ("of", "held"),
    [
        pytest.param(resizing(), 2000, id="nothing said: what it asks for"),
        pytest.param(resizing(containerStatuses=[status("main", {"cpu": "2"}, {"cpu": "2"})]), 2000, id="at rest"),
        pytest.param(resizing(containerStatuses=[status("main", {"cpu": "3"})]), 3000, id="it still has more"),
        pytest.param(resizing(containerStatuses=[status("main", {"cpu": "1"}, {"cpu": "4"})]), 4000, id="allocated"),
        pytest.param(resizing(containerStatuses=[status("main", {"cpu": "1"})]), 2000, id="it wants more than it has"),
        pytest.param(
            resizing("Infeasible", containerStatuses=[status("main", {"cpu": "1"})]), 1000, id="it can never have more"
        ),
        pytest.param(
            resizing("Deferred", containerStatuses=[status("main", {"cpu": "1"})]), 2000, id="it may have more later"
        ),
        pytest.param(resizing(containerStatuses=[status("main", None, {"cpu": "9"})]), 2000, id="no resources said"),
        pytest.param(resizing(containerStatuses=[status("other", {"cpu": "9"})]), 2000, id="of another container"),
    ],
)
def test_what_a_container_holds(of: PodBuilder, held: int) -> None:
    requests = of.build().requests
    assert requests.effective["cpu"] == held
    assert requests.non_zero["cpu"] == held
    assert requests.real["cpu"] == 2000


def test_sidecars_are_resized_and_other_init_containers_are_not() -> None:
    more = {"cpu": "5"}
    asks = {"requests": {"cpu": "1"}}
    plain = pod().init_container(name="init", resources=asks).status(initContainerStatuses=[status("init", more)])
    sidecar = (
        pod()
        .init_container(name="init", resources=asks, restartPolicy="Always")
        .status(initContainerStatuses=[status("init", more)])
    )
    assert plain.build().requests.effective["cpu"] == 1000
    assert sidecar.build().requests.effective["cpu"] == 5000


def test_pod_level_requests_are_resized_too() -> None:
    of = pod().spec(resources={"requests": {"cpu": "2", "memory": "1"}})
    assert of.status(resources={"requests": {"cpu": "3", "memory": "1"}}).build().requests.effective["cpu"] == 3000
    allocated = of.status(resources={"requests": {"cpu": "1"}}, allocatedResources={"cpu": "7"})
    assert allocated.build().requests.effective["cpu"] == 7000
    assert allocated.build().requests.real["cpu"] == 2000


def test_a_resize_makes_another_shape_and_its_end_the_old_one() -> None:
    before, after = resizing(), resizing(containerStatuses=[status("main", {"cpu": "2"})])
    during = resizing(containerStatuses=[status("main", {"cpu": "3"})])
    assert before.build().signature is after.build().signature
    assert before.build().signature is not during.build().signature


def test_a_pods_sum_is_rounded_once() -> None:
    of = pod().requests(memory="100m").container(resources={"requests": {"memory": "100m"}})
    assert of.build().requests.real["memory"] == 1
