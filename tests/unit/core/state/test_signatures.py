"""Pods of one template share one signature, whatever else tells them apart."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest

from pyscheduler.api import PodObject
from pyscheduler.core.state import PodSignatures
from pyscheduler.testing import PodBuilder, pod
from tests.unit.intree.storage import using
from tests.unit.intree.test_node_affinity import names

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
    shapes = PodSignatures()
    assert TEMPLATE.build(shapes).signature is sibling.build(shapes).signature


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
    shapes = PodSignatures()
    assert TEMPLATE.build(shapes).signature is not stranger.build(shapes).signature


def test_pods_with_labels_of_their_own_share_all_else() -> None:
    shapes = PodSignatures()
    one, other = (TEMPLATE.label("index", n).build(shapes) for n in ("0", "1"))
    assert one.signature is not other.signature
    assert one.signature.spec is other.signature.spec
    assert one.signature.requests is other.signature.requests


def test_pods_with_claims_of_their_own_share_a_template() -> None:
    shapes = PodSignatures()
    one, other, two_claims = (using(*claims, name="a") for claims in (["data-0"], ["data-1"], ["data-0", "logs-0"]))
    signature, sibling, stranger = (each.build(shapes).signature for each in (one, other, two_claims))
    assert [claim.name for claim in (*signature.volume_claims, *sibling.volume_claims)] == ["data-0", "data-1"]
    assert signature.template is sibling.template
    assert signature.template is not stranger.template


def test_pods_that_name_a_node_each_share_a_template() -> None:
    shapes = PodSignatures()
    pods = [TEMPLATE.node_affinity(names("In", name)) for name in ("n1", "n2", "n1")]
    signature, sibling, same = (each.build(shapes).signature for each in pods)
    assert (signature.template, signature) == (sibling.template, same)
    assert signature is not sibling
    for each, name in ((signature, "n1"), (sibling, "n2")):
        assert each.required_node_terms is not None
        assert [term.matches(name, {}) for term in each.required_node_terms] == [True]


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param([names("NotIn", "n1")], id="it is to be another node"),
        pytest.param([names("In", "n1")] * 2, id="there are two terms"),
        pytest.param([names("In", "n1") | {"matchExpressions": []}], id="labels matter too"),
        pytest.param([], id="any node will do"),
    ],
)
def test_pods_that_name_nodes_in_another_way_do_not(terms: list[dict[str, Any]]) -> None:
    shapes = PodSignatures()
    one, other = (TEMPLATE.node_affinity(*each).build(shapes) for each in ([names("In", "n1")], terms))
    assert one.signature.template is not other.signature.template


def test_what_repeats_is_one_string() -> None:
    shapes, pods = PodSignatures(), [TEMPLATE.uid(uid).on("n1").phase("Running").manifest for uid in ("a", "b")]
    one, other = (shapes.pod(msgspec.json.decode(msgspec.json.encode(pod), type=PodObject)) for pod in pods)
    assert one.namespace is other.namespace
    assert one.node_name is other.node_name
    assert one.phase is other.phase


@pytest.mark.parametrize(("placed", "kept"), [(False, ["Ready", "DisruptionTarget"]), (True, ["DisruptionTarget"])])
def test_of_a_pod_on_a_node_only_the_condition_that_it_must_go_is_kept(placed: bool, kept: list[str]) -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", "status": "True"}]
    builder = TEMPLATE.on("n1") if placed else TEMPLATE
    assert [c.type for c in builder.status(conditions=conditions).build(PodSignatures()).conditions] == kept


def test_volumes_that_no_scheduler_asks_about_are_not_kept() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    volumes = [{"name": "token", "projected": {"sources": [{}]}}, claim, {"name": "config", "configMap": {}}]
    assert TEMPLATE.spec(volumes=volumes).build(PodSignatures()).spec.volumes == (claim,)


def test_a_shape_is_forgotten_with_its_last_pod() -> None:
    shapes = PodSignatures()
    one, other = TEMPLATE.build(shapes), TEMPLATE.uid("b").build(shapes)
    del one
    assert len(shapes) == 1
    del other
    gc.collect()
    assert len(shapes) == 0


@pytest.mark.parametrize("amount", ["lots", "", "1e400", "0x10", "1 Gi"])
def test_a_pod_whose_requests_cannot_be_read_is_refused_at_the_door(amount: str) -> None:
    with pytest.raises(ValueError, match=r"quantity|unit"):
        pod("a").requests(cpu=amount).build(PodSignatures())
