"""The stock kube-scheduler and kube-controller-manager work on the embedded API server with hollow nodes.

All manifests are applied at once and each test waits for the work of one controller. Nothing of pyscheduler's
scheduler or controllers runs, except those that are a part of the API server.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from pyscheduler.clock import SystemClock
from pyscheduler.embedded import ApiServer
from pyscheduler.embedded.hollow import HollowNodes, NodeTemplate
from pyscheduler.kube.connection import ConnectionOptions, connect
from tests.controlplane.build import CONTROL_PLANE, cache_folder
from tests.controlplane.process import Process
from tests.docs.pages import rows
from tests.e2e.client import ApiClient, Json
from tests.e2e.kubectl import kubectl
from tests.e2e.plane import EMBEDDED, Plane, build_in_view

pytestmark = pytest.mark.slow
RECORDED = Path(__file__).with_name("stock_controllers.yaml")
PAGE, HEADING = "docs/embedded.md", "Stock controllers and scheduler"
RESERVED = {"key": "reserved", "value": "silent", "effect": "NoSchedule"}
NODES = (
    NodeTemplate("worker-1", labels={"role": "worker"}),
    NodeTemplate("worker-2", labels={"role": "worker"}),
    NodeTemplate("silent-1", taints=(RESERVED,)),
)
GRACE_SECONDS = 10
SECONDS = 90.0


@dataclass(frozen=True)
class ControllerWork:
    """Manifests for a controller, and its result: values by path, the deletion of a name, or the mark of one."""

    controller: str
    apply: list[Json]
    get: str
    expect: Json | None = None
    deleted: str = ""
    marked: bool = False

    def is_done(self, found: Json) -> bool:
        if self.deleted:
            return self.deleted not in {item["metadata"]["name"] for item in found["items"]}
        if self.marked:
            return "deletionTimestamp" in found["metadata"]
        return all(contains(found, path, value) for path, value in (self.expect or {}).items())


@dataclass(frozen=True)
class Stock:
    """The embedded API server with the stock programs."""

    api: ApiClient
    namespace: str
    programs: tuple[Process, ...]


WORKS = [ControllerWork(**each) for each in yaml.safe_load(RECORDED.read_text(encoding="utf-8"))]


def contains(found: Any, path: str, expected: object) -> bool:
    """Return True if the value at a path is the expected one, or a mapping with the expected entries."""
    for part in path.split("."):
        try:
            found = found[int(part) if isinstance(found, list) else part]
        except (IndexError, KeyError, TypeError):
            return False
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.items() <= found.items()
    return bool(found == expected)


def stock_programs(request: pytest.FixtureRequest) -> Path:
    """Return the folder of the programs. Skips if they are not built and the real control plane is not requested."""
    folder = cache_folder()
    missing = [name for name in CONTROL_PLANE if not os.access(folder / name, os.X_OK)]
    if missing and request.config.getoption("--control-plane", default=EMBEDDED) == EMBEDDED:
        pytest.skip(f"needs {', '.join(missing)}: python -m tests.controlplane.build")
    build_in_view(request.config)
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stock(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stock]:
    """The programs on an embedded API server on which all manifests are applied; one node is silent."""
    folder, tmp_path = stock_programs(request), tmp_path_factory.mktemp("stock")
    kubeconfig = tmp_path / "kubeconfig"
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ApiServer())
        server.write_kubeconfig(kubeconfig)
        connection = await connect(kubeconfig, ConnectionOptions(qps=-1), SystemClock())
        stack.push_async_callback(connection.close)
        nodes = HollowNodes(connection, NODES, clock=SystemClock(), heartbeat_seconds=1.0)
        await stack.enter_async_context(nodes)
        manager = (f"--node-monitor-grace-period={GRACE_SECONDS}s", "--node-monitor-period=1s", "--controllers=*")
        programs = (
            _started(folder / "kube-scheduler", kubeconfig, tmp_path),
            _started(folder / "kube-controller-manager", kubeconfig, tmp_path, *manager),
        )
        for program in programs:
            stack.push_async_callback(program.stop)
        api = await stack.enter_async_context(ApiClient(kubeconfig))
        namespace = f"test-{uuid.uuid4().hex[:8]}"
        await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        plane = Plane(EMBEDDED, kubeconfig, api)
        file = tmp_path / "all.yaml"
        file.write_text(yaml.safe_dump_all([_named(each, namespace) for work in WORKS for each in work.apply]))
        await kubectl(plane, "-n", namespace, "apply", "-f", str(file))
        nodes.kill("silent-1")
        yield Stock(api, namespace, programs)


def _started(program: Path, kubeconfig: Path, folder: Path, *options: str) -> Process:
    common = (f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0")
    return Process(program.name, [str(program), *common, *options], folder / f"{program.name}.log")


def _named(manifest: Json, namespace: str) -> Json:
    """Return a manifest with the namespace as the name of what has none, and with a certificate request."""
    text = json.dumps(manifest).replace('"NS', f'"{namespace}').replace("REQUEST", _certificate_request())
    named: Json = json.loads(text)
    return named


def _certificate_request() -> str:
    """Return the request of a kubelet for its client certificate."""
    subject = (
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, "system:node:worker-1"),
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    request = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(request.public_bytes(Encoding.PEM)).decode()


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.controller)
async def test_stock_controller_does_its_work(stock: Stock, work: ControllerWork) -> None:
    path = work.get.replace("NS", stock.namespace)
    path, _, selector = path.partition("?labelSelector=")
    query = {"labelSelector": selector} if selector else {}
    await stock.api.until(path, lambda found: work.is_done(renamed(found, stock.namespace)), SECONDS, **query)


def renamed(found: Json, namespace: str) -> Json:
    """Return an object with NS instead of the name of the test's namespace."""
    replaced: Json = json.loads(json.dumps(found).replace(namespace, "NS"))
    return replaced


@pytest.mark.asyncio(loop_scope="session")
async def test_stock_programs_keep_running_and_list_every_kind(stock: Stock) -> None:
    for program in stock.programs:
        assert program.alive, program.tail()
        failed = [line for line in program.log.read_text().splitlines() if "Failed to watch" in line]
        assert failed == []


def test_page_has_a_row_for_each_controller(request: pytest.FixtureRequest) -> None:
    program = stock_programs(request) / "kube-controller-manager"
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    named = text.split("All controllers: ", 1)[1].split("\n", 1)[0].strip().split(", ")
    listed = {row[0].strip("`"): row[1] for row in rows(PAGE, HEADING)}
    assert sorted(listed) == sorted(named)
    assert {work.controller: listed[work.controller] for work in WORKS} == {work.controller: "yes" for work in WORKS}
    assert len(WORKS) == list(listed.values()).count("yes")
