"""Access to the scheduler's endpoints on a real API server, compared with the real kube-scheduler."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import NamedTuple

import aiohttp
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from tests.controlplane.cluster import ControlPlane
from tests.e2e.client import ApiClient, Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import pod, pod_spec

pytestmark = pytest.mark.asyncio(loop_scope="session")
NAME = "endpoints"
POLLS, POLL_SECONDS = 600, 0.1
HEALTH = ("/healthz", "/livez", "/readyz")
SHARED = (
    *HEALTH,
    "/livez/ping",
    "/readyz/sched-handler-sync",
    "/readyz/shutdown",
    "/metrics",
    "/metrics/resources",
    "/configz",
    "/",
    "/nowhere",
    "/healthz/",
    "/healthz/nothing",
    "/healthz%2fping",
    "/debug/pprof/",
    "/debug/pprof/nothing",
    "//metrics",
    "/metrics/",
)
"""Paths with the same response in kube-scheduler."""
OURS = (
    *("/healthz/ping", "/readyz/ping", "/readyz/informer-sync", "/debug/queue", "/debug/cache"),
    *("/flagz", "/statusz", "/debug/pprof/cmdline", "/debug/pprof/goroutine", "/debug/pprof/profile?seconds=1"),
)
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class EndpointResponse(NamedTuple):
    """Status and body of a response."""

    status: int
    body: str

    @property
    def refusal(self) -> Json:
        return dict(json.loads(self.body))


class EndpointClient:
    """Client of one scheduler's endpoints."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address

    async def get(
        self, path: str, token: str = "", method: str = "GET", tls: ssl.SSLContext | None = None
    ) -> EndpointResponse:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = URL(f"{self._address}{path}", encoded=True)
        trusted = tls if tls is not None else True
        async with self._session.request(method, url, headers=headers, ssl=trusted) as answer:
            return EndpointResponse(answer.status, await answer.text())


class Both(NamedTuple):
    """Both schedulers and their CA."""

    ours: EndpointClient
    theirs: EndpointClient
    plane: ControlPlane

    def administrator(self) -> ssl.SSLContext:
        assert self.plane.api.tls is not None
        return self.plane.api.tls


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def both(control_plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Both]:
    real = control_plane.real
    if real is None:
        pytest.skip("needs the real control plane: pytest tests/e2e --control-plane=real")
    folder = tmp_path_factory.mktemp("endpoints")
    async with AsyncExitStack() as stack:
        trusting = ssl.create_default_context(cafile=real.authority)
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting))
        await stack.enter_async_context(session)
        ours = await stack.enter_async_context(scheduler(control_plane, Configured(NAME), folder))
        theirs = await stack.enter_async_context(real.kube_scheduler(Configured(f"{NAME}-kube").document()))
        yield Both(
            EndpointClient(session, ours.address), EndpointClient(session, f"https://127.0.0.1:{theirs.port}"), real
        )


@pytest_asyncio.fixture(loop_scope="session")
async def scraper(both: Both, namespace: str) -> AsyncIterator[str]:
    """The token of a service account that may read /metrics and nothing else."""
    api = both.plane.api
    await api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "scraper"}})
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": namespace}, "rules": rules})
    binding = {
        "metadata": {"name": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": namespace}],
    }
    await api.create(f"{RBAC}/clusterrolebindings", binding)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/scraper/token"
    made = await api.create(path, {"spec": {}})
    token: str = made["status"]["token"]
    await _until_allowed(api, f"system:serviceaccount:{namespace}:scraper")
    yield token
    await api.delete(f"{RBAC}/clusterrolebindings/{namespace}")
    await api.delete(f"{RBAC}/clusterroles/{namespace}")


async def _until_allowed(api: ApiClient, user: str) -> None:
    """Wait until the API server applies the binding: a denial would be cached for ten seconds."""
    review = {"spec": {"user": user, "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}}
    for _ in range(POLLS):
        if (await api.create(REVIEWS, review))["status"]["allowed"]:
            return
        await asyncio.sleep(POLL_SECONDS)
    raise TimeoutError


@pytest.mark.parametrize("path", HEALTH)
async def test_health_needs_no_credentials(both: Both, path: str) -> None:
    assert await both.ours.get(path) == (200, "ok") == await both.theirs.get(path)


@pytest.mark.parametrize("path", [path for path in (*SHARED, *OURS) if path not in HEALTH])
async def test_other_paths_are_forbidden_without_credentials(both: Both, path: str) -> None:
    ours, theirs = await both.ours.get(path), await both.theirs.get(path)
    assert ours.status == 403
    assert ours.refusal == theirs.refusal


@pytest.mark.parametrize("path", [*HEALTH, "/metrics", "/nowhere"])
async def test_invalid_token_is_unauthorized(both: Both, path: str) -> None:
    ours, theirs = await both.ours.get(path, "nonsense"), await both.theirs.get(path, "nonsense")
    assert ours.status == 401
    assert ours.refusal == theirs.refusal


@pytest.mark.parametrize("path", [*SHARED, *OURS])
async def test_service_account_gets_the_paths_of_its_role(both: Both, scraper: str, path: str) -> None:
    ours, theirs = await both.ours.get(path, scraper), await both.theirs.get(path, scraper)
    assert ours.status == theirs.status == (200 if path in (*HEALTH, "/metrics") else 403)
    if ours.status == 403:
        assert ours.refusal == theirs.refusal


@pytest.mark.parametrize("method", ["HEAD", "POST", "DELETE", "PUT"])
async def test_permission_to_get_allows_no_other_method(both: Both, scraper: str, method: str) -> None:
    ours = await both.ours.get("/metrics", scraper, method)
    assert ours.status == (await both.theirs.get("/metrics", scraper, method)).status == 403


@pytest.mark.parametrize("path", SHARED)
async def test_administrator_may_read_every_path(both: Both, path: str) -> None:
    ours = await both.ours.get(path, tls=both.administrator())
    theirs = await both.theirs.get(path, tls=both.administrator())
    assert ours.status == theirs.status


@pytest.mark.parametrize("path", OURS)
async def test_administrator_may_read_our_paths(both: Both, path: str) -> None:
    assert (await both.ours.get(path, tls=both.administrator())).status == 200


async def test_administrator_may_reset_metrics(both: Both) -> None:
    ours = await both.ours.get("/metrics", method="DELETE", tls=both.administrator())
    assert ours == (200, "metrics reset\n") == await both.theirs.get("/metrics", "", "DELETE", both.administrator())


async def test_configz_equals_kube_schedulers(both: Both) -> None:
    shown = [
        json.loads((await server.get("/configz", tls=both.administrator())).body)["componentconfig"]
        for server in (both.ours, both.theirs)
    ]
    ours, theirs = ({key: value for key, value in config.items() if key != "profiles"} for config in shown)
    assert ours["leaderElection"] == theirs["leaderElection"]
    assert ours["podInitialBackoffSeconds"] == theirs["podInitialBackoffSeconds"]
    assert (ours["apiVersion"], ours["kind"]) == (theirs["apiVersion"], theirs["kind"])


async def test_resource_metrics_equal_kube_schedulers(both: Both, namespace: str) -> None:
    spec = pod_spec("no-scheduler", namespace, cpu="250m")
    await both.plane.api.create(f"/api/v1/namespaces/{namespace}/pods", pod("requesting", spec))
    for _ in range(POLLS):
        ours, theirs = [await _resources(server, both, namespace) for server in (both.ours, both.theirs)]
        if ours == theirs and ours:
            return
        await asyncio.sleep(POLL_SECONDS)
    raise AssertionError(f"{ours} is not {theirs}")


async def _resources(
    server: EndpointClient, both: Both, namespace: str
) -> set[tuple[frozenset[tuple[str, str]], float]]:
    """Return the samples of a namespace."""
    page = await server.get("/metrics/resources", tls=both.administrator())
    families = text_string_to_metric_families(page.body)
    samples = [s for family in families for s in family.samples if s.labels["namespace"] == namespace]
    return {(frozenset({**s.labels, "metric": s.name}.items()), s.value) for s in samples}
