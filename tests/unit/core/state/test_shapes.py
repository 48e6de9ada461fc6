"""Pods of one template share one shape, whatever else tells them apart."""

from __future__ import annotations

import gc

import pytest

from pyscheduler.core.state import Shapes
from pyscheduler.testing import PodBuilder, pod

TEMPLATE = pod("a").requests(cpu="1").label("app", "web")


@pytest.mark.parametrize(
    "sibling",
    [
        pytest.param(TEMPLATE.uid("other"), id="another uid"),
        pytest.param(TEMPLATE.on("n1"), id="on a node"),
        pytest.param(TEMPLATE.phase("Running").nominated("n2"), id="another status"),
        pytest.param(TEMPLATE.spec(volumes=[{"name": "token-x", "projected": {}}]), id="a token volume"),
        pytest.param(
            TEMPLATE.annotation("kubectl.kubernetes.io/last-applied-configuration", "{}"), id="kubectl's bookkeeping"
        ),
    ],
)
def test_siblings_share_a_shape(sibling: PodBuilder) -> None:
    shapes = Shapes()
    assert TEMPLATE.build(shapes).shape is sibling.build(shapes).shape


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param(TEMPLATE.namespace("other"), id="another namespace"),
        pytest.param(TEMPLATE.label("app", "db"), id="another label"),
        pytest.param(TEMPLATE.annotation("team", "a"), id="an annotation"),
        pytest.param(TEMPLATE.requests(cpu="2"), id="another request"),
        pytest.param(TEMPLATE.priority(5), id="another priority"),
        pytest.param(
            TEMPLATE.spec(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]), id="a claim"
        ),
    ],
)
def test_others_do_not(stranger: PodBuilder) -> None:
    shapes = Shapes()
    assert TEMPLATE.build(shapes).shape is not stranger.build(shapes).shape


def test_a_shape_is_forgotten_with_its_last_pod() -> None:
    shapes = Shapes()
    one, other = TEMPLATE.build(shapes), TEMPLATE.uid("b").build(shapes)
    del one
    assert len(shapes) == 1
    del other
    gc.collect()
    assert len(shapes) == 0


@pytest.mark.parametrize("amount", ["lots", "", "1e400", "0x10", "1 Gi"])
def test_a_pod_whose_requests_cannot_be_read_is_refused_at_the_door(amount: str) -> None:
    with pytest.raises(ValueError, match=r"quantity|unit"):
        pod("a").requests(cpu=amount).build(Shapes())
