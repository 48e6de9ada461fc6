"""The quality-of-service class is the API server's."""

from __future__ import annotations

import pytest

from pyscheduler.api import QoSClass
from pyscheduler.testing import PodBuilder, pod

G, B, E = QoSClass.GUARANTEED, QoSClass.BURSTABLE, QoSClass.BEST_EFFORT
BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("of", "qos"),
    [
        pytest.param(pod(), E, id="nothing"),
        pytest.param(pod().requests(cpu="0").limits(memory="0"), E, id="zeros are nothing"),
        pytest.param(pod().request("nvidia.com/gpu", "1"), E, id="other resources do not count"),
        pytest.param(pod().requests(cpu="1"), B, id="a request"),
        pytest.param(pod().limits(cpu="1"), B, id="a limit of cpu alone"),
        pytest.param(pod().limits(**BOTH), G, id="limits that requests default to"),
        pytest.param(pod().limits(**BOTH).requests(**BOTH), G, id="requests equal to limits"),
        pytest.param(pod().limits(**BOTH).requests(cpu="1000m", memory="1024Mi"), G, id="written in another way"),
        pytest.param(pod().limits(**BOTH).requests(cpu="500m"), B, id="a smaller request"),
        pytest.param(pod().limits(**BOTH).requests(cpu="0"), B, id="a request of 0"),
        pytest.param(pod().limits(**BOTH).container(), B, id="a second container without limits"),
        pytest.param(pod().limits(**BOTH).container(resources={"limits": BOTH}), G, id="two of the kind"),
        pytest.param(pod().limits(**BOTH).init_container(), B, id="an init container without limits"),
        pytest.param(pod().spec(resources={"limits": BOTH}), G, id="pod-level limits"),
        pytest.param(pod().spec(resources={"requests": BOTH}), B, id="pod-level requests"),
        pytest.param(pod().limits(**BOTH).spec(resources={"requests": {"cpu": "1"}}), B, id="pod-level comes first"),
        pytest.param(pod().limits(**BOTH).spec(resources={}), E, id="even if it is empty"),
    ],
)
def test_the_class_of_a_pod(of: PodBuilder, qos: QoSClass) -> None:
    assert of.build().signature.qos is qos
