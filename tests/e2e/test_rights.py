"""The overlays on an API server that enforces RBAC: no request of the scheduler is rejected, and no permission unused.

Each overlay is applied with kubectl; the command of its Deployment then runs as a process with the credentials that the
pod would have. Its requests and their results are read from the API server's audit log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from tests.e2e.audit import AuditLog, Right, forbidden, granted, used
from tests.e2e.client import ApiError, Json
from tests.e2e.demands import Demands
from tests.e2e.kubectl import kubectl
from tests.e2e.plane import EMBEDDED, REAL, Plane, new_namespace, real
from tests.e2e.scheduler import ROOT, scheduler_with

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEPLOYMENT = "/apis/apps/v1/namespaces/kube-system/deployments/pyscheduler"
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
SERVICE_ACCOUNT = "system:serviceaccount:kube-system:pyscheduler"
KUBE_SCHEDULER = "system:kube-scheduler"
SELDOM = {
    Right("", "pods", "get"): "only after a binding with a lost response",
    Right("scheduling.k8s.io", "podgroups", "list"): "only with PodGroups or the feature gate GangScheduling",
    Right("scheduling.k8s.io", "podgroups", "watch"): "only with PodGroups or the feature gate GangScheduling",
    Right("scheduling.volcano.sh", "podgroups", "list"): "only with PodGroups",
    Right("scheduling.volcano.sh", "podgroups", "watch"): "only with PodGroups",
    Right("scheduling.volcano.sh", "podgroups", "patch"): "only with PodGroups",
    Right("scheduling.volcano.sh", "podgroups/status", "patch"): "only with PodGroups",
    Right("scheduling.k8s.io", "podgroups/status", "patch"): "only with PodGroups",
    Right("scheduling.k8s.io", "podgroups", "get"): "only with PodGroups",
    Right("scheduling.volcano.sh", "podgroups", "get"): "only with PodGroups",
    Right("scheduling.x-k8s.io", "podgroups", "get"): "only with PodGroups",
    **{
        Right("scheduling.k8s.io", "compositepodgroups", verb): "only with PodGroups or the gate CompositePodGroup"
        for verb in ("get", "list", "watch")
    },
    Right("scheduling.k8s.io", "compositepodgroups/status", "patch"): "only with PodGroups or CompositePodGroup",
    Right("scheduling.k8s.io", "priorityclasses", "list"): "only with PodGroups",
    Right("scheduling.k8s.io", "priorityclasses", "watch"): "only with PodGroups",
    Right("topology.volcano.sh", "hypernodes", "list"): "only with PodGroups, where HyperNodes are installed",
    Right("topology.volcano.sh", "hypernodes", "watch"): "only with PodGroups, where HyperNodes are installed",
    Right("scheduling.volcano.sh", "queues", "list"): "only with plugins that read queues",
    Right("scheduling.volcano.sh", "queues", "watch"): "only with plugins that read queues",
    Right("scheduling.volcano.sh", "queues/status", "patch"): "only with plugins that read queues",
    Right("scheduling.x-k8s.io", "elasticquotas", "list"): "only with plugins that read queues",
    Right("scheduling.x-k8s.io", "elasticquotas", "watch"): "only with plugins that read queues",
    **{
        Right("resource.k8s.io", resource, verb): "only for pods with devices"
        for resource, verbs in (
            ("resourceclaims", ("get", "create", "update", "delete")),
            ("resourceclaims/status", ("update", "patch")),
            ("resourceclaims/binding", ("update", "patch")),
        )
        for verb in verbs
    },
    Right("authentication.k8s.io", "tokenreviews", "create"): "only when metrics are requested with a token",
    Right("authorization.k8s.io", "subjectaccessreviews", "create"): "only when metrics are requested",
}
"""Rights that the demands do not use, and the reason; test_pod_groups.py uses those of PodGroups."""


@dataclass
class Audited:
    """A control plane and its audit log."""

    plane: Plane
    log: AuditLog


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def audited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Audited]:
    """The control plane of this module."""
    if request.config.getoption("--control-plane", default=EMBEDDED) != REAL:
        pytest.skip("needs the real control plane: pytest tests/e2e --control-plane=real")
    log = AuditLog(tmp_path_factory.mktemp("audit"))
    async with real(request.config, log.options) as plane:
        yield Audited(plane, log)


async def test_second_scheduler_has_exactly_the_permissions_that_it_needs(audited: Audited, tmp_path: Path) -> None:
    plane = audited.plane
    template = await applied(plane, "second-scheduler", tmp_path)
    assert plane.real is not None
    account = await plane.real.kubeconfig_for_service_account("kube-system", template["serviceAccountName"])
    async with scheduler_with(plane, tmp_path / "config.yaml", tmp_path, kubeconfig=account):
        demands = await demanding(plane, "second", "pyscheduler")
        await demands.all()
        await demands.a_gang()
    rights = granted(await roles(plane))
    requests = await audited.log.all_of(SERVICE_ACCOUNT, rights - SELDOM.keys())
    assert forbidden(requests) == set()
    assert rights - used(requests) - SELDOM.keys() == set(), "granted, and never used"
    assert SELDOM.keys() <= rights, "what is not granted needs no excuse"


async def test_default_scheduler_works_with_kube_schedulers_permissions(audited: Audited, tmp_path: Path) -> None:
    plane = audited.plane
    await applied(plane, "default-scheduler", tmp_path)
    assert plane.real is not None
    user = plane.real.kubeconfig_for(KUBE_SCHEDULER)
    async with scheduler_with(plane, tmp_path / "config.yaml", tmp_path, kubeconfig=user):
        demands = await demanding(plane, "in-its-place", "default-scheduler")
        await demands.all()
    assert await bound_by_hand(plane, KUBE_SCHEDULER) == []
    binding = Right("", "pods/binding", "create")
    requests = await audited.log.all_of(KUBE_SCHEDULER, {binding})
    assert forbidden(requests) == set()
    assert binding in used(requests)


async def test_forbidden_kind_does_not_block_the_start(audited: Audited, tmp_path: Path) -> None:
    plane = audited.plane
    await applied(plane, "default-scheduler", tmp_path)
    await kubectl(plane, "apply", "-f", str(ROOT / "manifests" / "base" / "crds"))
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    config["profiles"][0]["plugins"] = {"multiPoint": {"enabled": [{"name": "Gang"}]}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    assert plane.real is not None
    user = plane.real.kubeconfig_for(KUBE_SCHEDULER)
    async with scheduler_with(plane, tmp_path / "config.yaml", tmp_path, kubeconfig=user) as running:
        demands = await demanding(plane, "gangs", "default-scheduler")
        await demands.all()
    assert {request.right.resource for request in forbidden(audited.log.of(KUBE_SCHEDULER))} >= {"podgroups"}
    assert "Optional resource is forbidden, continuing without it" in running.log.read_text()


@pytest.mark.parametrize("overlay", ["second-scheduler", "batch"])
async def test_pods_satisfy_the_restricted_standard(audited: Audited, tmp_path: Path, overlay: str) -> None:
    template = await applied(audited.plane, overlay, tmp_path)
    assert await refusal(audited.plane, overlay, template) == ""


async def test_default_scheduler_overlay_needs_a_host_path_and_root(audited: Audited, tmp_path: Path) -> None:
    template = await applied(audited.plane, "default-scheduler", tmp_path)
    message = await refusal(audited.plane, "default-scheduler", template)
    assert "hostPath" in message
    assert "runAsNonRoot" in message
    assert "capabilities" not in message
    assert "allowPrivilegeEscalation" not in message


async def applied(plane: Plane, overlay: str, folder: Path) -> Json:
    """Apply an overlay, write its configuration to `folder`, and return its pod's spec; the pods themselves go."""
    await kubectl(plane, "apply", "-k", str(ROOT / "manifests" / "overlays" / overlay))
    template: Json = (await plane.api.get(DEPLOYMENT))["spec"]["template"]["spec"]
    mounted = next(v["configMap"]["name"] for v in template["volumes"] if "configMap" in v)
    config = (await plane.api.get(f"{CONFIG_MAPS}/{mounted}"))["data"]
    (folder / "config.yaml").write_text(config["config.yaml"])
    await kubectl(plane, "delete", "deployment", "pyscheduler", "--namespace=kube-system", "--cascade=foreground")
    assert template["containers"][0]["args"][:2] == ["run", "--config=/etc/pyscheduler/config.yaml"]
    return template


async def demanding(plane: Plane, namespace: str, scheduler: str) -> Demands:
    """Return demands in a new namespace."""
    await new_namespace(plane.api, namespace)
    return Demands(plane, namespace, scheduler)


async def roles(plane: Plane) -> list[Json]:
    """Return the base's roles for the scheduler."""
    kinds = "/apis/rbac.authorization.k8s.io/v1"
    return [
        await plane.api.get(f"{kinds}/clusterroles/pyscheduler"),
        await plane.api.get(f"{kinds}/namespaces/kube-system/roles/pyscheduler"),
    ]


async def bound_by_hand(plane: Plane, user: str) -> list[str]:
    """Return a user's role bindings, without the API server's built-in ones."""
    kinds = ("clusterrolebindings", "rolebindings")
    made = [b for kind in kinds for b in await plane.api.list(f"/apis/rbac.authorization.k8s.io/v1/{kind}")]
    named = [b for b in made if any(subject["name"] == user for subject in b.get("subjects", ()))]
    assert named
    return [
        b["metadata"]["name"] for b in named if "kubernetes.io/bootstrapping" not in b["metadata"].get("labels", {})
    ]


async def refusal(plane: Plane, overlay: str, template: Json) -> str:
    """Return the rejection of a pod by the Pod Security Standard "restricted", "" if it is admitted."""
    name = f"restricted-{overlay}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await plane.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    await plane.api.until(f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda found: True)
    spec = {**template, "serviceAccountName": "default", "serviceAccount": "default"}
    try:
        await plane.api.create(f"/api/v1/namespaces/{name}/pods?dryRun=All", {"metadata": {"name": "p"}, "spec": spec})
    except ApiError as error:
        return error.message
    return ""
