"""Kinds that are stored by their published schema: defaults, required text, conversions, decisions."""

from __future__ import annotations

from typing import Any

import pytest

from .builders import MERGE, Cluster, Json, api_error, fields_of

INGRESSES, AUTOSCALERS = "ingresses.networking.k8s.io", "horizontalpodautoscalers.autoscaling"
SIGNING = "certificatesigningrequests.certificates.k8s.io"
PEM = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0="


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def named(**parts: Any) -> Json:
    return {"metadata": {"name": "x"}, **parts}


def ingress(**path: Any) -> Json:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    whole = {"path": "/", "pathType": "Prefix", "backend": backend, **path}
    return named(spec={"rules": [{"host": "a.example.com", "http": {"paths": [whole]}}]})


def autoscaler(**spec: Any) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return named(spec={"scaleTargetRef": target, "maxReplicas": 5, **spec})


def test_network_policy_gets_its_types_and_protocols(cluster: Cluster) -> None:
    rule = {"ports": [{"port": 80}]}
    stored = cluster.create("networkpolicies.networking.k8s.io", named(spec={"egress": [rule], "podSelector": {}}))
    assert stored["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert stored["spec"]["egress"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert stored["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param(named(spec={}), "spec", id="neither rules nor a default backend"),
        pytest.param(ingress(pathType=""), "spec.rules[0].http.paths[0].pathType", id="no path type"),
        pytest.param(ingress(path="x"), "spec.rules[0].http.paths[0].path", id="relative path"),
        pytest.param(ingress(backend={}), "spec.rules[0].http.paths[0].backend", id="no backend"),
        pytest.param(
            ingress(backend={"service": {"name": "web"}}),
            "spec.rules[0].http.paths[0].backend.service.port",
            id="no port",
        ),
    ],
)
def test_incomplete_ingress_is_rejected(cluster: Cluster, body: Json, field: str) -> None:
    assert fields_of(api_error(lambda: cluster.create(INGRESSES, body))) == [field]
    assert cluster.create(INGRESSES, ingress())["spec"]["rules"]


@pytest.mark.parametrize(
    ("kind", "body", "fields"),
    [
        pytest.param("runtimeclasses.node.k8s.io", named(), ["handler"], id="text of the object itself"),
        pytest.param(AUTOSCALERS, named(spec={"maxReplicas": 1}), [], id="no target: an object is not text"),
        pytest.param(
            AUTOSCALERS,
            named(spec={"scaleTargetRef": {"kind": "Deployment"}, "maxReplicas": 1}),
            ["spec.scaleTargetRef.name"],
            id="text of a part",
        ),
        pytest.param(
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
            named(webhooks=[{"name": "", "sideEffects": "None", "clientConfig": {"url": "https://x"}}]),
            ["webhooks[0].name"],
            id="text of a list item",
        ),
    ],
)
def test_required_text_of_the_schema_must_be_set(cluster: Cluster, kind: str, body: Json, fields: list[str]) -> None:
    if fields:
        assert fields_of(api_error(lambda: cluster.create(kind, body))) == fields
    else:
        cluster.create(kind, body)


def test_strict_validation_and_types_follow_the_schema(cluster: Cluster) -> None:
    typo = ingress(patType="Prefix")
    assert (
        "spec.rules[0].http.paths[0].patType"
        in api_error(lambda: cluster.create(INGRESSES, typo, validation="Strict")).message
    )
    wrong = autoscaler(maxReplicas="five")
    assert "spec.maxReplicas: expected int, got str" in api_error(lambda: cluster.create(AUTOSCALERS, wrong)).message


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"maxReplicas": 0}, "spec.maxReplicas", id="no replicas"),
        pytest.param({"minReplicas": 0}, "spec.minReplicas", id="minimum of zero"),
        pytest.param({"minReplicas": 9}, "spec.maxReplicas", id="maximum below minimum"),
    ],
)
def test_limits_of_an_autoscaler_are_checked(cluster: Cluster, spec: Json, field: str) -> None:
    body = autoscaler(**spec)
    assert fields_of(api_error(lambda: cluster.create(f"{AUTOSCALERS}", body))) == [field]


def test_autoscaler_of_the_first_version_is_stored_in_the_second(cluster: Cluster) -> None:
    first = cluster.api.resource("horizontalpodautoscalers", "autoscaling", "v1")
    body = autoscaler(targetCPUUtilizationPercentage=70)
    cluster.api.create(first, "default", {"apiVersion": "autoscaling/v1", **body})
    stored = cluster.api.get(first, "default", "x")
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
    }
    assert stored.object["apiVersion"] == "autoscaling/v2"
    assert stored.object["spec"]["metrics"] == [metric]
    assert first.from_stored is not None
    shown = first.from_stored(stored.object)
    assert (shown["apiVersion"], shown["spec"]["targetCPUUtilizationPercentage"]) == ("autoscaling/v1", 70)
    assert "metrics" not in shown["spec"]


def test_status_of_an_autoscaler_survives_both_conversions(cluster: Cluster) -> None:
    first = cluster.api.resource("horizontalpodautoscalers", "autoscaling", "v1")
    assert first.to_stored is not None
    assert first.from_stored is not None
    status = {"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 55}
    body = {"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1", **autoscaler(), "status": status}
    assert first.from_stored(first.to_stored(body)) == body


def test_signing_request_is_approved_once_and_not_changed(cluster: Cluster) -> None:
    spec = {"request": PEM, "signerName": "example.com/x", "usages": ["client auth"], "username": "someone"}
    made = cluster.create(SIGNING, named(spec=spec))
    assert made["spec"]["username"] == "embedded-user"
    assert fields_of(api_error(lambda: cluster.patch(SIGNING, "x", {"spec": {"usages": []}}, MERGE))) == ["spec.usages"]
    changed = {"spec": {"usages": ["any"]}}
    assert fields_of(api_error(lambda: cluster.patch(SIGNING, "x", changed, MERGE))) == ["spec"]

    def decide(*kinds: str) -> Json:
        conditions = [{"type": kind, "status": "True", "reason": "r"} for kind in kinds]
        return cluster.patch(SIGNING, "x", {"status": {"conditions": conditions}}, MERGE, "status")

    decide("Approved")
    assert fields_of(api_error(lambda: decide("Denied"))) == ["status.conditions"]
    assert fields_of(api_error(lambda: decide("Approved", "Denied"))) == ["status.conditions"]
    assert decide("Approved")["status"]["conditions"][0]["type"] == "Approved"


@pytest.mark.parametrize("request_text", ["eA==", "x", "\u00e9"], ids=["no PEM", "no base64", "not ASCII"])
def test_signing_request_needs_a_pem_block(cluster: Cluster, request_text: str) -> None:
    spec = {"request": request_text, "signerName": "example.com/x", "usages": ["client auth"]}
    assert fields_of(api_error(lambda: cluster.create(SIGNING, named(spec=spec)))) == ["spec.request"]


def test_webhooks_get_their_defaults(cluster: Cluster) -> None:
    hook = {
        "name": "a.example.com",
        "sideEffects": "None",
        "clientConfig": {"service": {"namespace": "n", "name": "s"}},
        "rules": [{"operations": ["CREATE"]}],
    }
    stored = cluster.create("mutatingwebhookconfigurations.admissionregistration.k8s.io", named(webhooks=[hook]))
    found = stored["webhooks"][0]
    assert (found["failurePolicy"], found["timeoutSeconds"], found["reinvocationPolicy"]) == ("Fail", 10, "Never")
    assert found["clientConfig"]["service"]["port"] == 443
    assert found["rules"][0]["scope"] == "*"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        pytest.param({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}, [], id="valid"),
        pytest.param({"addressType": "IPv5"}, ["addressType"], id="unknown address type"),
        pytest.param({"addressType": "IPv4", "endpoints": [{}]}, ["endpoints[0].addresses"], id="no address"),
    ],
)
def test_endpoint_slice_is_checked(cluster: Cluster, body: Json, fields: list[str]) -> None:
    slices = "endpointslices.discovery.k8s.io"
    if fields:
        assert fields_of(api_error(lambda: cluster.create(slices, named(**body)))) == fields
        return
    made = cluster.create(slices, named(**body, ports=[{"port": 80}]))
    assert made["ports"] == [{"port": 80, "name": "", "protocol": "TCP"}]
    changed = {"addressType": "IPv6"}
    assert fields_of(api_error(lambda: cluster.patch(slices, "x", changed, MERGE))) == ["addressType"]


def test_new_cluster_has_what_every_cluster_has(cluster: Cluster) -> None:
    assert cluster.names("componentstatuses") == ["controller-manager", "etcd-0", "scheduler"]
    assert cluster.get("services", "kubernetes")["spec"]["clusterIP"] == "10.96.0.1"
    addresses = cluster.get("servicecidrs.networking.k8s.io", "kubernetes")
    assert addresses["spec"] == {"cidrs": ["10.96.0.0/12"]}
    assert [(c["type"], c["status"]) for c in addresses["status"]["conditions"]] == [("Ready", "True")]
    cluster.create("namespaces", {"metadata": {"name": "mine"}})
    assert cluster.names("serviceaccounts", "mine") == ["default"]
    assert cluster.names("configmaps", "mine") == ["kube-root-ca.crt"]
