"""`pyscheduler nodes` on an API server: hollow nodes are added, removed, failed and recovered, and any are drained."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pyscheduler.api import ResourceKind
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.node_actions import NodeActions
from pyscheduler.cli.node_drain import Drain
from pyscheduler.cli.node_selection import NodeSelection
from pyscheduler.cli.program import app
from pyscheduler.embedded.hollow.pools import NodePool, pools_config_map
from pyscheduler.embedded.hollow.template import node_object
from pyscheduler.embedded.server import ApiServer
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import NODES, PODS
from pyscheduler.testing import pod
from tests.unit.hollow.live import bind, connected, create_pod, list_objects

Json = dict[str, Any]
POOLS = [NodePool("small", 2, zones=("a", "b")), NodePool("gpu", 1, labels={"tier": "gpu"})]
BUDGETS = ResourceKind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


class VirtualClock:
    """Clock of which sleeping costs no time; `on_sleep` runs before it returns."""

    def __init__(self) -> None:
        self.time = 0.0
        self.on_sleep: Callable[[], Awaitable[object]] | None = None

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.on_sleep is not None:
            await self.on_sleep()


@pytest.fixture
async def client() -> AsyncIterator[ObjectClient]:
    """API server with the nodes small-1, small-2 and gpu-1."""
    async with ApiServer() as server, connected(server.url) as connection:
        api = server.api
        for template in (template for pool in POOLS for template in pool.templates()):
            api.create(api.resource("nodes"), "", node_object(template, "10.0.0.1", 0.0))
        api.create(api.resource("configmaps"), "kube-system", pools_config_map(POOLS))
        yield ObjectClient(connection)


def names(*selected: str) -> NodeSelection:
    return NodeSelection(selected, None, None)


def some(count: int, pool: str | None = None) -> NodeSelection:
    return NodeSelection((), count, pool)


async def node_names(client: ObjectClient) -> list[str]:
    return [node["metadata"]["name"] for node in await list_objects(client, NODES)]


async def test_added_nodes_have_the_labels_and_zones_of_their_pool(client: ObjectClient) -> None:
    assert await NodeActions(client).add(2, "small") == ["node/small-3 added", "node/small-4 added"]
    labels = (await client.get(NODES, "", "small-4"))["metadata"]["labels"]
    assert (labels["topology.kubernetes.io/zone"], labels["pyscheduler.io/node-pool"]) == ("b", "small")


async def test_youngest_nodes_of_the_pool_are_removed(client: ObjectClient) -> None:
    await NodeActions(client).add(8, "small")
    assert await NodeActions(client).remove(some(2, "small")) == ["node/small-10 removed", "node/small-9 removed"]
    assert len(await node_names(client)) == 9


async def test_failed_nodes_are_not_failed_again_and_recover(client: ObjectClient) -> None:
    actions = NodeActions(client)
    assert await actions.fail(some(1, "small")) == ["node/small-2 failed"]
    assert await actions.fail(some(1, "small")) == ["node/small-1 failed"]
    annotations = (await client.get(NODES, "", "small-1"))["metadata"]["annotations"]
    assert annotations == {"pyscheduler.io/heartbeats": "stopped"}
    assert await actions.recover(some(2)) == ["node/small-2 recovered", "node/small-1 recovered"]
    assert not (await client.get(NODES, "", "small-1"))["metadata"].get("annotations")


Attempt = Callable[[NodeActions], Awaitable[object]]
REFUSED: list[tuple[str, Attempt, str]] = [
    ("pool is needed", lambda nodes: nodes.add(1, None), "--pool is required, as there are several: small, gpu"),
    ("unknown pool", lambda nodes: nodes.add(1, "smal"), "there is no pool 'smal'; did you mean \"small\"?"),
    ("unknown node", lambda nodes: nodes.fail(names("small-3")), "there is no node small-3"),
    ("too many", lambda nodes: nodes.remove(some(3, "small")), "--count: 3 are to be chosen of 2 such nodes"),
    ("no node of the pool", lambda nodes: nodes.remove(some(1, "large")), "--pool: no node is of the pool 'large'"),
    ("real node", lambda nodes: nodes.remove(names("real")), "real: not a hollow node of `pyscheduler up`"),
]


@pytest.mark.parametrize(("attempt", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
async def test_action_is_refused_before_anything_is_changed(
    client: ObjectClient, attempt: Attempt, message: str
) -> None:
    await client.create(NODES, {"metadata": {"name": "real"}})
    with pytest.raises(CommandProblem) as error:
        await attempt(NodeActions(client))
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert await node_names(client) == ["gpu-1", "real", "small-1", "small-2"]


async def test_cluster_without_pools_gets_no_nodes() -> None:
    async with ApiServer() as server, connected(server.url) as connection:
        with pytest.raises(CommandProblem, match="not one of `pyscheduler up`"):
            await NodeActions(ObjectClient(connection)).add(1, None)


async def create_bound(client: ObjectClient, name: str, node: str = "small-1", app: str = "") -> None:
    await create_pod(client, pod(name).label("app", app))
    await bind(client, name, node)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch_status(PODS, ("default", name), ready)


def drain(client: ObjectClient, *, timeout: float = 10.0, force: bool = True) -> tuple[Drain, VirtualClock]:
    clock = VirtualClock()
    return Drain(client, clock, timeout=timeout, force=force), clock


async def test_drained_node_is_cordoned_and_its_pods_are_deleted(client: ObjectClient) -> None:
    await create_bound(client, "here")
    await create_bound(client, "elsewhere", "gpu-1")
    assert await drain(client)[0].run(names("small-1")) == ["node/small-1 drained", "1 pod evicted"]
    assert (await client.get(NODES, "", "small-1"))["spec"]["unschedulable"] is True
    assert "deletionTimestamp" in (await client.get(PODS, "default", "here"))["metadata"]
    assert "deletionTimestamp" not in (await client.get(PODS, "default", "elsewhere"))["metadata"]


async def test_pods_without_controller_stay_unless_forced(client: ObjectClient) -> None:
    await create_bound(client, "bare")
    with pytest.raises(CommandProblem, match="no controller would replace default/bare; add --force"):
        await drain(client, force=False)[0].run(names("small-1"))
    assert not (await client.get(NODES, "", "small-1"))["spec"].get("unschedulable")


async def protect(client: ObjectClient, minimum: int) -> None:
    spec = {"minAvailable": minimum, "selector": {"matchLabels": {"app": "w"}}}
    await client.create(BUDGETS, {"metadata": {"name": "b", "namespace": "default"}, "spec": spec})


async def test_drain_waits_for_a_disruption_budget_and_reports_it_at_the_timeout(client: ObjectClient) -> None:
    await create_bound(client, "p", app="w")
    await protect(client, 1)
    drain_, clock = drain(client, timeout=3.0)
    with pytest.raises(CommandProblem, match=r"not evicted within 3 s: default/p: .*disruption budget"):
        await drain_.run(names("small-1"))
    assert clock.time == 3.0


async def test_drain_goes_on_when_the_budget_allows_it(client: ObjectClient) -> None:
    await create_bound(client, "p", app="w")
    await protect(client, 1)
    drain_, clock = drain(client)

    async def allow() -> None:
        await client.delete(BUDGETS, ("default", "b"))

    clock.on_sleep = allow
    assert await drain_.run(some(1, "small")) == ["node/small-2 drained", "0 pods evicted"]
    assert await drain_.run(some(1, "small")) == ["node/small-1 drained", "1 pod evicted"]
    assert clock.time == 1.0


USAGE = [
    (("fail",), "name the nodes, or choose some with --count"),
    (("fail", "a", "--count", "1"), "--count cannot be used together with names of nodes"),
    (("drain", "a", "--pool", "p"), "--pool cannot be used together with names of nodes"),
    (("add", "--count", "0"), "--count"),
]


@pytest.mark.parametrize(("words", "message"), USAGE)
def test_selection_that_is_ambiguous_is_a_usage_error(words: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(app, ["nodes", *words])
    assert (result.exit_code, message in result.output) == (2, True), result.output


async def test_command_line_acts_on_the_cluster_of_the_kubeconfig(tmp_path: Path) -> None:
    async with ApiServer() as server:
        api = server.api
        api.create(api.resource("configmaps"), "kube-system", pools_config_map(POOLS[:1]))
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        words = ["nodes", "add", "--count", "2", "--kubeconfig", str(kubeconfig)]
        result = await asyncio.to_thread(CliRunner().invoke, app, words)
        assert result.output == "node/small-1 added\nnode/small-2 added\n"
        assert [version.key[1] for version in api.list(api.resource("nodes")).items] == ["small-1", "small-2"]
