"""Nodes without kubelets have exactly the requested taints, and creating them twice is harmless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.access import Access
from tests.controlplane.nodes import NodeShape, create_nodes
from tests.e2e.client import ApiClient, ApiError, Json

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
RESERVED = {"key": "reserved", "value": "yes", "effect": "NoSchedule"}


class TaintingServer(ApiClient):
    """Taints new nodes as the API server's admission does, in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Access(folder).for_user("https://127.0.0.1:1", "admin"))
        self.nodes: dict[str, Json] = {}

    async def create(self, path: str, body: Json) -> Json:
        name = body["metadata"]["name"]
        if name in self.nodes:
            raise ApiError("POST", path, 409, '{"reason": "AlreadyExists"}')
        self.nodes[name] = {**body, "spec": {"taints": [*body["spec"]["taints"], NOT_READY]}}
        return self.nodes[name]

    async def patch(self, path: str, body: Any, kind: str = "merge", **query: str | int) -> Json:
        node = self.nodes[path.removeprefix("/api/v1/nodes/")]
        node["spec"] = {key: value for key, value in {**node["spec"], **body["spec"]}.items() if value is not None}
        return node


@pytest.mark.parametrize(
    ("taints", "expected"), [((), {}), ((RESERVED,), {"taints": [RESERVED]})], ids=["none", "one of the test's"]
)
async def test_nodes_have_only_the_requested_taints(taints: tuple[Json, ...], expected: Json, tmp_path: Path) -> None:
    api = TaintingServer(tmp_path)

    names = await create_nodes(api, 2, NodeShape(taints=taints))

    assert names == ["node-0", "node-1"]
    assert [api.nodes[name]["spec"] for name in names] == [expected, expected]


async def test_zones_are_assigned_round_robin_by_number(tmp_path: Path) -> None:
    api = TaintingServer(tmp_path)
    await create_nodes(api, 2, NodeShape(zones=3))

    await create_nodes(api, 3, NodeShape(zones=3), first=1)

    zones = {name: node["metadata"]["labels"]["topology.kubernetes.io/zone"] for name, node in api.nodes.items()}
    assert zones == {"node-0": "zone-0", "node-1": "zone-1", "node-2": "zone-2", "node-3": "zone-0"}
