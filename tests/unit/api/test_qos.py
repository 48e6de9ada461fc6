"""QoS classes equal those of the API server."""

from __future__ import annotations

import pytest

from pyscheduler.api import QoSClass
from pyscheduler.testing import PodBuilder, pod

G, B, E = QoSClass.GUARANTEED, QoSClass.BURSTABLE, QoSClass.BEST_EFFORT
BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("of", "qos"),
    [
        pytest.param(pod(), E, id="no resources"),
        pytest.param(pod().requests(cpu="0").limits(memory="0"), E, id="zeros do not count"),
        pytest.param(pod().request("nvidia.com/gpu", "1"), E, id="other resources do not count"),
        pytest.param(pod().requests(cpu="1"), B, id="request only"),
        pytest.param(pod().limits(cpu="1"), B, id="cpu limit only"),
        pytest.param(pod().limits(**BOTH), G, id="limits without requests"),
        pytest.param(pod().limits(**BOTH).requests(**BOTH), G, id="requests equal to limits"),
        pytest.param(
            pod().limits(**BOTH).requests(cpu="1000m", memory="1024Mi"), G, id="equal requests in another notation"
        ),
        pytest.param(pod().limits(**BOTH).requests(cpu="500m"), B, id="request below the limit"),
        pytest.param(pod().limits(**BOTH).requests(cpu="0"), B, id="request of 0"),
        pytest.param(pod().limits(**BOTH).container(), B, id="second container without limits"),
        pytest.param(pod().limits(**BOTH).container(resources={"limits": BOTH}), G, id="two guaranteed containers"),
        pytest.param(pod().limits(**BOTH).init_container(), B, id="init container without limits"),
        pytest.param(pod().spec(resources={"limits": BOTH}), G, id="pod-level limits"),
        pytest.param(pod().spec(resources={"requests": BOTH}), B, id="pod-level requests"),
        pytest.param(
            pod().limits(**BOTH).spec(resources={"requests": {"cpu": "1"}}),
            B,
            id="pod-level resources replace those of containers",
        ),
        pytest.param(pod().limits(**BOTH).spec(resources={}), E, id="empty pod-level resources"),
    ],
)
def test_qos_class_of_a_pod(of: PodBuilder, qos: QoSClass) -> None:
    assert of.build().signature.qos is qos
