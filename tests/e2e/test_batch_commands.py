"""`pyscheduler groups`, `queues` and `queue` beside a running scheduler, on the embedded and the real API server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from tests.controlplane.cluster import ControlPlane
from tests.e2e.client import ApiClient, Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import ROOT, create_documents, install, scheduler_with
from tests.e2e.workloads import hollow_nodes, pod, pod_spec, unscheduled

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONFIG = ROOT / "config" / "batch.yaml"
CRDS = ROOT / "manifests" / "crds"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
UNTIL_SECONDS = 60.0


class Commands:
    """Runs `pyscheduler` as a user of the cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    async def __call__(self, *words: str) -> tuple[int | None, str, str]:
        """Return exit code, standard output and standard error."""
        process = await self._started(*words)
        out, err = await asyncio.wait_for(process.communicate(), UNTIL_SECONDS)
        assert b"Traceback" not in err, err.decode()
        return process.returncode, out.decode(), err.decode()

    async def rows(self, *words: str) -> dict[str, Json]:
        """Return the JSON rows by name."""
        code, out, err = await self(*words, "-o", "json")
        assert code == 0, err
        return {row["name"]: row for row in map(json.loads, out.splitlines())}

    @asynccontextmanager
    async def watching(self, *words: str) -> AsyncIterator[Callable[[Callable[[Json], bool]], asyncio.Task[Json]]]:
        """Yield a function that waits for a row of `--watch -o json`."""
        process = await self._started(*words, "--watch", "-o", "json", "--interval", "0.5")
        assert process.stdout is not None
        lines = process.stdout

        async def until(matches: Callable[[Json], bool]) -> Json:
            async with asyncio.timeout(UNTIL_SECONDS):
                async for line in lines:
                    row: Json = json.loads(line)
                    if matches(row):
                        return row
            raise AssertionError("the command ended")

        try:
            yield lambda matches: asyncio.create_task(until(matches))
        finally:
            process.kill()
            await process.communicate()

    async def _started(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyscheduler", *words, "--kubeconfig", str(self._kubeconfig.absolute())),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "500"},
        )


@asynccontextmanager
async def queue(api: ApiClient, name: str, **spec: object) -> AsyncIterator[None]:
    """A Queue that exists until the block ends."""
    for crd in ("volcano-queues.yaml", "volcano-podgroups.yaml", "elasticquotas.yaml"):
        await create_documents(api, CRDS / crd)
    await api.until(f"{VOLCANO}/queues", lambda found: "items" in found)
    await api.until(f"{VOLCANO}/podgroups", lambda found: "items" in found)
    await api.create(
        f"{VOLCANO}/queues",
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec},
    )
    try:
        yield
    finally:
        await api.delete(f"{VOLCANO}/queues/{name}")


async def create_group(api: ApiClient, namespace: str, name: str, size: int, queue_name: str) -> None:
    """Create a PodGroup of Volcano and its pods of one cpu."""
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
    spec = {"minMember": size, "queue": queue_name}
    await api.create(f"{VOLCANO}/namespaces/{namespace}/podgroups", {**group, "spec": spec})
    for i in range(size):
        member = pod(f"{name}-{i}", pod_spec("pyscheduler", namespace, cpu="1"))
        member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
        await api.create(f"/api/v1/namespaces/{namespace}/pods", member)


async def test_commands_show_what_the_scheduler_does(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, run = control_plane.api, Commands(control_plane.kubeconfig)
    pods, name = f"/api/v1/namespaces/{namespace}/pods", f"queue-{namespace}"
    async with (
        queue(api, name, weight=1, capability={"cpu": 5}),
        hollow_nodes(control_plane, namespace, 4, cpu="1"),
        scheduler_with(control_plane, CONFIG, tmp_path),
    ):
        await create_group(api, namespace, "first", 3, name)
        await api.until(pods, lambda found: sum(bool(p["spec"].get("nodeName")) for p in found["items"]) == 3)
        await create_group(api, namespace, "second", 2, name)
        await create_group(api, namespace, "third", 3, name)
        found = await api.until(pods, lambda found: sum(bool(unscheduled(p)) for p in found["items"]) == 5)
        messages = {p["metadata"]["name"]: unscheduled(p) for p in found["items"]}

        groups = await run.rows("groups", "-n", namespace)
        assert {key: (row["state"], row["placed"], row["queue"]) for key, row in groups.items()} == {
            "first": ("Scheduled", 3, name),
            "second": ("Waiting", 0, name),
            "third": ("Waiting", 0, name),
        }
        assert (groups["second"]["position"], groups["third"]["position"]) == (1, 2)
        assert groups["second"]["message"] == messages["second-0"]
        assert groups["third"]["reason"] == "QuotaExceeded"
        member = (await run.rows("groups", f"{namespace}/first"))["first"]["members"][0]
        assert member["node"].startswith(namespace)

        shown = (await run.rows("queues"))[name]
        assert {**shown["resources"]["cpu"], "share": 0, "borrowed": 0} == {
            "allocated": 3,
            "requested": 5,
            "share": 0,
            "borrowed": 0,
            "deserved": None,
            "guarantee": 0,
            "capability": 5,
        }
        assert shown["groups"] == {"running": 1, "waiting": 2, "waitingPods": 5, "gated": 0}
        assert shown["next"]["name"] == "second"
        code, table, _ = await run("queues", name)
        assert code == 0
        assert f"{namespace}/second: {messages['second-0']}" in table


async def test_pending_and_bound_pods_are_explained(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    api, run = control_plane.api, Commands(control_plane.kubeconfig)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    async with hollow_nodes(control_plane, namespace, 2, cpu="2"), scheduler_with(control_plane, CONFIG, tmp_path):
        for name, cpu in (("fits", "1"), ("large", "3")):
            await api.create(pods, pod(name, pod_spec("pyscheduler", namespace, cpu=cpu)))
        await api.until(f"{pods}/fits", lambda found: found["spec"].get("nodeName"))
        waiting = await api.until(f"{pods}/large", unscheduled)
        large = (await run.rows("explain", f"{namespace}/large"))["large"]
        assert (large["state"], large["lastAttempt"]["message"]) == ("Unschedulable", unscheduled(waiting))
        own = [each for each in large["rejected"] if any(name.startswith(namespace) for name in each["nodes"])]
        assert [(o["plugin"], o["hint"]) for each in own for o in each["rejections"]] == [
            ("NodeResourcesFit", "a node with 3 cpu; the largest has 2")
        ]
        fits = (await run.rows("explain", "fits", "-n", namespace))["fits"]
        assert (fits["state"], len(fits["feasible"])) == ("Bound", 2)
        content = yaml.safe_load(control_plane.kubeconfig.read_text())
        content["contexts"][0]["context"]["namespace"] = namespace
        (tmp_path / "context").write_text(yaml.safe_dump(content))
        assert list(await Commands(tmp_path / "context").rows("explain", "fits")) == ["fits"]
        code, _, err = await run("explain", f"{namespace}/none")
        assert (code, f"there is no pod {namespace}/none" in err) == (1, True)


async def test_stopped_queue_starts_no_group_until_it_is_resumed(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    api, run = control_plane.api, Commands(control_plane.kubeconfig)
    name = f"queue-{namespace}"
    async with (
        queue(api, name, weight=1),
        hollow_nodes(control_plane, namespace, 4, cpu="1"),
        scheduler_with(control_plane, CONFIG, tmp_path),
    ):
        code, out, _ = await run("queue", "stop", name)
        assert (code, out) == (0, f"queue {name} is Closing: no job of it starts from now on, running pods continue\n")
        async with run.watching("groups", "-n", namespace) as until:
            gated = until(lambda row: row["state"] == "Gated" and row["pending"] == 2)
            await create_group(api, namespace, "held", 2, name)
            # The controller closes an empty queue.
            assert (await gated)["message"] in (f"queue {name} is Closing", f"queue {name} is Closed")
            scheduled = until(lambda row: row["state"] == "Scheduled")
            code, out, _ = await run("queue", "resume", name)
            assert (code, out) == (0, f"queue {name} is Open: its jobs start again\n")
            assert (await scheduled)["placed"] == 2
        assert (await run("queue", "stop", "no-such-queue"))[0] == 1


async def test_user_of_one_namespace_sees_its_groups(
    control_plane: Plane, real_control_plane: ControlPlane, namespace: str
) -> None:
    """The built-in ClusterRole `view`, granted in the namespace, suffices with the roles of the manifests."""
    api, name = control_plane.api, f"queue-{namespace}"
    await install(api)
    await create_documents(api, CRDS / "users.yaml")
    rights = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    await api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "member"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subject = {"kind": "ServiceAccount", "name": "member", "namespace": namespace}
    await api.create(rights, {"metadata": {"name": "view"}, "roleRef": role, "subjects": [subject]})
    run = Commands(await real_control_plane.kubeconfig_for_service_account(namespace, "member"))
    async with queue(api, name, weight=1):
        await create_group(api, namespace, "held", 2, name)
        await asyncio.sleep(2)  # until the aggregated role has reached the authorizer
        code, out, err = await run("groups", "-n", namespace)
        assert code == 0, err
        assert f"{namespace}/held" in out
        assert f"only namespace {namespace} is read" in out
        code, _, err = await run("groups")
        assert (code, "for one namespace: -n NAMESPACE" in err) == (1, True)
        code, _, err = await run("queues")
        assert (code, "may not list pods in all namespaces" in err) == (1, True)
        code, _, err = await run("queue", "stop", name)
        assert (code, "you may not" in err) == (1, True)
