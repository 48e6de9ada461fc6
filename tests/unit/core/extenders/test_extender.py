"""Extender calls by managed resources of the pod."""

from __future__ import annotations

import pytest

from pyscheduler.core.extenders.extender import Extender
from pyscheduler.testing import PodBuilder, pod

FPGA, GPU = "example.com/fpga", "example.com/gpu"
LIMITED = {"limits": {FPGA: "1"}}


@pytest.mark.parametrize(
    ("managed", "built", "interested"),
    [
        pytest.param((), pod(), True, id="any pod, if no resource is managed"),
        pytest.param((FPGA,), pod(), False, id="a pod without resources"),
        pytest.param((FPGA,), pod().requests(cpu="1"), False, id="other resources"),
        pytest.param((FPGA, GPU), pod().request(GPU, "1"), True, id="one of several"),
        pytest.param((FPGA,), pod().request(FPGA, "0"), True, id="a request of zero"),
        pytest.param((FPGA,), pod().container(resources=LIMITED), True, id="a limit of another container"),
        pytest.param((FPGA,), pod().init_container(resources=LIMITED), True, id="an init container"),
    ],
)
def test_extender_is_called_for_pods_with_managed_resources(
    managed: tuple[str, ...], built: PodBuilder, interested: bool
) -> None:
    assert Extender("http://e", managed=frozenset(managed)).is_interested(built.build()) is interested
