"""Interning of pod signatures: which differences between pods give different signatures or groups."""

from __future__ import annotations

import gc
import math
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
            TEMPLATE.annotation("kubectl.kubernetes.io/last-applied-configuration", "{}"), id="kubectl's annotation"
        ),
    ],
)
def test_pods_with_irrelevant_differences_share_a_signature(sibling: PodBuilder) -> None:
    signatures = PodSignatures()
    assert TEMPLATE.build(signatures).signature is sibling.build(signatures).signature


@pytest.mark.parametrize(
    "other",
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
def test_pods_with_relevant_differences_have_different_signatures(other: PodBuilder) -> None:
    signatures = PodSignatures()
    assert TEMPLATE.build(signatures).signature is not other.build(signatures).signature


def test_pods_with_different_labels_share_spec_and_requests() -> None:
    signatures = PodSignatures()
    one, other = (TEMPLATE.label("index", n).build(signatures) for n in ("0", "1"))
    assert one.signature is not other.signature
    assert one.signature.spec is other.signature.spec
    assert one.signature.requests is other.signature.requests


def test_pods_with_different_claims_share_a_template() -> None:
    signatures = PodSignatures()
    one, other, two_claims = (using(*claims, name="a") for claims in (["data-0"], ["data-1"], ["data-0", "logs-0"]))
    signature, sibling, different = (each.build(signatures).signature for each in (one, other, two_claims))
    assert [claim.name for claim in (*signature.volume_claims, *sibling.volume_claims)] == ["data-0", "data-1"]
    assert signature.template is sibling.template
    assert signature.template is not different.template


def test_pods_with_affinity_to_one_node_each_share_a_template() -> None:
    signatures = PodSignatures()
    pods = [TEMPLATE.node_affinity(names("In", name)) for name in ("n1", "n2", "n1")]
    signature, sibling, same = (each.build(signatures).signature for each in pods)
    assert (signature.template, signature) == (sibling.template, same)
    assert signature is not sibling
    for each, name in ((signature, "n1"), (sibling, "n2")):
        assert each.required_node_terms is not None
        assert [term.matches(name, {}) for term in each.required_node_terms] == [True]


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param([names("NotIn", "n1")], id="NotIn"),
        pytest.param([names("In", "n1")] * 2, id="two terms"),
        pytest.param([names("In", "n1") | {"matchExpressions": []}], id="label expressions"),
        pytest.param([], id="no terms"),
    ],
)
def test_pods_with_other_affinity_to_nodes_have_different_templates(terms: list[dict[str, Any]]) -> None:
    signatures = PodSignatures()
    one, other = (TEMPLATE.node_affinity(*each).build(signatures) for each in ([names("In", "n1")], terms))
    assert one.signature.template is not other.signature.template


def test_repeated_strings_are_interned() -> None:
    signatures, pods = PodSignatures(), [TEMPLATE.uid(uid).on("n1").phase("Running").manifest for uid in ("a", "b")]
    one, other = (signatures.pod(msgspec.json.decode(msgspec.json.encode(pod), type=PodObject)) for pod in pods)
    assert one.namespace is other.namespace
    assert one.node_name is other.node_name
    assert one.phase is other.phase


@pytest.mark.parametrize(("placed", "kept"), [(False, ["Ready", "DisruptionTarget"]), (True, ["DisruptionTarget"])])
def test_pod_on_a_node_has_only_the_disruption_target_condition(placed: bool, kept: list[str]) -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", "status": "True"}]
    builder = TEMPLATE.on("n1") if placed else TEMPLATE
    assert [c.type for c in builder.status(conditions=conditions).build(PodSignatures()).conditions] == kept


def test_only_volumes_relevant_for_scheduling_are_kept() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    volumes = [{"name": "token", "projected": {"sources": [{}]}}, claim, {"name": "config", "configMap": {}}]
    assert TEMPLATE.spec(volumes=volumes).build(PodSignatures()).spec.volumes == (claim,)


def test_signature_is_freed_with_its_last_pod() -> None:
    signatures = PodSignatures()
    one, other = TEMPLATE.build(signatures), TEMPLATE.uid("b").build(signatures)
    del one
    assert len(signatures) == 1
    del other
    gc.collect()
    assert len(signatures) == 0


@pytest.mark.parametrize("amount", ["lots", "", "1e400", "0x10", "1 Gi"])
def test_invalid_quantity_in_requests_raises_value_error(amount: str) -> None:
    with pytest.raises(ValueError, match=r"quantity|unit"):
        pod("a").requests(cpu=amount).build(PodSignatures())


def test_start_time_is_stored_in_seconds() -> None:
    built = pod("web").on("n1").status(startTime="2026-01-01T00:00:30Z").build(PodSignatures())
    assert (built.started, built.start_time) == (1767225630.0, "2026-01-01T00:00:30Z")
    assert built.on("n2").started == built.started


@pytest.mark.parametrize("time", ["2026-01-01T01:00:30+01:00", "2026-01-01T00:00:30", "2026-01-01T00:00:30.000000Z"])
def test_start_time_is_understood_in_other_forms(time: str) -> None:
    assert pod("web").status(startTime=time).build(PodSignatures()).started == 1767225630.0


def test_missing_or_invalid_start_time_is_infinite() -> None:
    for builder in (pod("web"), pod("web").status(startTime="yesterday")):
        built = builder.build(PodSignatures())
        assert (built.started, built.start_time) == (math.inf, None)


def test_creation_time_is_stored_for_pods_without_node() -> None:
    created = pod("web").created("2026-01-01T00:00:00Z")
    assert created.build(PodSignatures()).created == "2026-01-01T00:00:00Z"
    assert created.on("n1").build(PodSignatures()).created is None
