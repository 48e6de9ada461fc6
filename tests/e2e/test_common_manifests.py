"""Manifests as charts contain them, and kubectl's commands on their kinds: equal on both API servers."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.client import Json
from tests.e2e.kubectl import kubectl, kubectl_error
from tests.e2e.plane import Plane

pytestmark = pytest.mark.asyncio(loop_scope="session")
SHOP = Path(__file__).with_name("shop.yaml")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MONITORS = "servicemonitors.monitoring.example.com"
PATCHED_AGAIN = {"poddisruptionbudget.policy/shop", "networkpolicy.networking.k8s.io/shop"}
"""Objects for which kubectl always sends a patch: a selector that is replaced, and an atomic list with a default."""
SELECTOR = "app.kubernetes.io/name=shop"


def definition() -> Json:
    integer = {"type": "integer"}
    order = {"rule": "self.minimum <= self.maximum", "message": "minimum must not exceed maximum"}
    spec = {
        "type": "object",
        "description": "What is monitored.",
        "properties": {
            "selector": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "endpoints": {"type": "array", "items": {"type": "object", "properties": {"port": {"type": "string"}}}},
            "minimum": integer,
            "maximum": integer,
            "replicas": integer,
        },
        "x-kubernetes-validations": [order],
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}},
        "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
    }
    names = {"plural": "servicemonitors", "kind": "ServiceMonitor", "singular": "servicemonitor"}
    names |= {"listKind": "ServiceMonitorList"}
    whole = {"group": "monitoring.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, "metadata": {"name": MONITORS}, "spec": whole}


@pytest_asyncio.fixture(loop_scope="session")
async def monitors(control_plane: Plane) -> AsyncIterator[None]:
    """Serve ServiceMonitors, and have discovery and both OpenAPI documents list them."""
    await kubectl(
        control_plane, "version", "--client"
    )  # without kubectl the test is skipped before anything is created
    await control_plane.api.create(CRDS, definition())
    await _until_openapi(control_plane, listed=True)
    yield
    await control_plane.api.delete(f"{CRDS}/{MONITORS}")
    await _until_openapi(control_plane, listed=False)


async def _until_openapi(plane: Plane, *, listed: bool) -> None:
    for _ in range(600):
        pages = [await kubectl(plane, "get", "--raw", path) for path in ("/openapi/v2", "/openapi/v3", "/apis")]
        if all(("monitoring.example.com" in page) is listed for page in pages):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the documents have not changed within a minute")


async def get(plane: Plane, namespace: str, kind: str, name: str = "shop") -> Json:
    found: Json = json.loads(await kubectl(plane, "-n", namespace, "get", kind, name, "-o", "json"))
    return found


async def test_kind_that_is_not_served_is_named_and_the_rest_applied(control_plane: Plane, namespace: str) -> None:
    error = await kubectl_error(control_plane, "-n", namespace, "apply", "-f", str(SHOP))
    assert 'no matches for kind "ServiceMonitor" in version "monitoring.example.com/v1"' in error
    assert "ensure CRDs are installed first" in error
    assert (await get(control_plane, namespace, "ingress"))["spec"]["ingressClassName"] == "nginx"


@pytest.mark.usefixtures("monitors")
async def test_release_is_applied_whole_and_unchanged_when_applied_again(control_plane: Plane, namespace: str) -> None:
    first = await kubectl(control_plane, "-n", namespace, "apply", "-f", str(SHOP))
    again = await kubectl(control_plane, "-n", namespace, "apply", "-f", str(SHOP))
    assert {line.rpartition(" ")[2] for line in first.splitlines()} == {"created"}
    changed = {line.partition(" ")[0] for line in again.splitlines() if not line.endswith("unchanged")}
    assert changed == PATCHED_AGAIN
    assert len(again.splitlines()) == SHOP.read_text(encoding="utf-8").count("\n---\n") + 1
    server_side = ("apply", "--server-side", "--force-conflicts", "-f", str(SHOP))
    assert "serverside-applied" in await kubectl(control_plane, "-n", namespace, *server_side)


async def test_stored_objects_have_the_defaults_of_kubernetes(control_plane: Plane, namespace: str) -> None:
    await kubectl_error(control_plane, "-n", namespace, "apply", "-f", str(SHOP))
    policy, service = await get(control_plane, namespace, "netpol"), await get(control_plane, namespace, "service")
    assert policy["spec"]["ingress"] == [{"ports": [{"port": 8080, "protocol": "TCP"}]}]
    assert policy["metadata"]["generation"] == 1
    spec = service["spec"]
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"], spec["sessionAffinity"]) == (["IPv4"], "SingleStack", "None")
    first = await get(control_plane, namespace, "horizontalpodautoscalers.v1.autoscaling")
    assert first["spec"]["targetCPUUtilizationPercentage"] == 80


async def test_apply_prunes_what_is_no_longer_in_the_file(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    documents = [each for each in SHOP.read_text(encoding="utf-8").split("\n---\n") if "ServiceMonitor" not in each]
    path, words = tmp_path / "shop.yaml", ("apply", "--prune", "-l", SELECTOR, "-f")
    path.write_text("\n---\n".join(documents), encoding="utf-8")
    await kubectl(control_plane, "-n", namespace, *words, str(path))
    path.write_text("\n---\n".join(each for each in documents if "kind: ConfigMap" not in each), encoding="utf-8")
    assert "configmap/shop pruned" in await kubectl(control_plane, "-n", namespace, *words, str(path))


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("ingress.spec.rules", ["<[]IngressRule>", "host", "http"]),
        ("networkpolicies.spec", ["podSelector", "policyTypes"]),
        ("pod.spec.containers.image", ["<string>", "Container image name"]),
        ("hpa.spec.metrics", ["KIND:       HorizontalPodAutoscaler", "VERSION:    v2"]),
    ],
)
async def test_kubectl_explains_fields(control_plane: Plane, field: str, words: list[str]) -> None:
    text = await kubectl(control_plane, "explain", field)
    assert [word for word in words if word not in text] == []


@pytest.mark.usefixtures("monitors")
async def test_kubectl_explains_custom_resources(control_plane: Plane) -> None:
    assert "What is monitored." in await kubectl(control_plane, "explain", "servicemonitor.spec")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"pathTyp": "Prefix"}, 'unknown field "spec.rules[0].http.paths[0].pathTyp"'),
        ({"pathType": "Sometimes"}, 'pathType: Unsupported value: "Sometimes"'),
        ({"backend": {}}, "spec.rules[0].http.paths[0].backend"),
    ],
)
async def test_invalid_ingress_is_rejected(
    control_plane: Plane, namespace: str, tmp_path: Path, change: Json, error: str
) -> None:
    backend = {"service": {"name": "shop", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend, **change}
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "wrong"},
        "spec": {"rules": [{"http": {"paths": [path]}}]},
    }
    file = _written(tmp_path, body)
    assert error in await kubectl_error(control_plane, "-n", namespace, "create", "-f", file)


def _written(folder: Path, body: Any) -> str:
    path = folder / "manifest.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    return str(path)


@pytest.mark.usefixtures("monitors")
async def test_rules_and_scale_of_custom_resources(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    body = {"apiVersion": "monitoring.example.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "m"}}
    wrong = _written(tmp_path, {**body, "spec": {"minimum": 3, "maximum": 2}})
    error = await kubectl_error(control_plane, "-n", namespace, "create", "-f", wrong)
    assert 'The ServiceMonitor "m" is invalid: spec: Invalid value: ' in error
    assert "minimum must not exceed maximum" in error
    right = _written(tmp_path, {**body, "spec": {"minimum": 1, "maximum": 2, "replicas": 1}})
    await kubectl(control_plane, "-n", namespace, "create", "-f", right)
    await kubectl(control_plane, "-n", namespace, "scale", "servicemonitor", "m", "--replicas=4")
    assert (await get(control_plane, namespace, "servicemonitor", "m"))["spec"]["replicas"] == 4


async def test_token_of_a_service_account_is_reviewed_as_its_user(control_plane: Plane, namespace: str) -> None:
    await kubectl(control_plane, "-n", namespace, "create", "serviceaccount", "robot")
    token = (await kubectl(control_plane, "-n", namespace, "create", "token", "robot")).strip()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    reviewed = await control_plane.api.create("/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert reviewed["status"]["user"]["username"] == f"system:serviceaccount:{namespace}:robot"


async def test_signing_request_is_approved(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": namespace},
        "spec": {"request": _request(), "signerName": "example.com/signer", "usages": ["client auth"]},
    }
    await kubectl(control_plane, "create", "-f", _written(tmp_path, body))
    await kubectl(control_plane, "certificate", "approve", namespace)
    row = (await kubectl(control_plane, "get", "csr", namespace)).splitlines()[1]
    await kubectl(control_plane, "delete", "csr", namespace)
    assert (row.split()[2], row.split()[-1]) == ("example.com/signer", "Approved")


def _request() -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "robot")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


@pytest.mark.parametrize(
    "words",
    [
        ("create", "ingress", "i", "--rule=a.example.com/=s:80"),
        ("create", "poddisruptionbudget", "b", "--min-available=1", "--selector=a=b"),
        ("create", "service", "nodeport", "s", "--tcp=80"),
        ("create", "service", "externalname", "e", "--external-name=example.com"),
        ("create", "quota", "q", "--hard=pods=3"),
        ("create", "rolebinding", "r", "--clusterrole=view", "--serviceaccount=default:default"),
        ("autoscale", "deployment", "d", "--min=1", "--max=3"),
        ("expose", "deployment", "d", "--port=80"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
async def test_kubectl_creates_typed_objects(control_plane: Plane, namespace: str, words: tuple[str, ...]) -> None:
    if words[1] == "deployment":
        await kubectl(control_plane, "-n", namespace, "create", "deployment", "d", "--image=i", "--replicas=0")
    await kubectl(control_plane, "-n", namespace, *words)
