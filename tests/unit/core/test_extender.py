"""Whose business a pod is."""

from __future__ import annotations

import pytest

from pyscheduler.core.extender import Extender
from pyscheduler.testing import PodBuilder, pod

FPGA, GPU = "example.com/fpga", "example.com/gpu"
LIMITED = {"limits": {FPGA: "1"}}


@pytest.mark.parametrize(
    ("managed", "built", "interested"),
    [
        pytest.param((), pod(), True, id="any pod, where nothing is managed"),
        pytest.param((FPGA,), pod(), False, id="a pod without resources"),
        pytest.param((FPGA,), pod().requests(cpu="1"), False, id="other resources"),
        pytest.param((FPGA, GPU), pod().request(GPU, "1"), True, id="one of several"),
        pytest.param((FPGA,), pod().request(FPGA, "0"), True, id="none of it, but stated"),
        pytest.param((FPGA,), pod().container(resources=LIMITED), True, id="a limit of another container"),
        pytest.param((FPGA,), pod().init_container(resources=LIMITED), True, id="an init container"),
    ],
)
def test_whose_business_a_pod_is(managed: tuple[str, ...], built: PodBuilder, interested: bool) -> None:
    assert Extender("http://e", managed=frozenset(managed)).is_interested(built.build()) is interested
