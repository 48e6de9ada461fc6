"""Every example in the pages is a file that runs, and the pages repeat it literally."""

from __future__ import annotations

import asyncio
import importlib
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from pyscheduler.api import Pod, Rejection
from pyscheduler.config.discover import GROUP, load_class
from pyscheduler.config.load import loads
from pyscheduler.config.plugin_class import check_class
from pyscheduler.testing import Harness, assert_forms_agree, node, pod
from tests.docs.pages import EXAMPLES, PAGES, ROOT, Block, blocks

# Its examples start servers and have their own tests.
BLOCKS = [block for page in PAGES if page != "docs/embedded.md" for block in blocks(page)]


@pytest.fixture(autouse=True)
def _examples_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def blocks_in(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


def label(block: Block) -> str:
    return f"{block.page}:{block.source or block.language}"


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.source], ids=label)
def test_page_repeats_the_file(block: Block) -> None:
    assert block.text == (ROOT / block.source).read_text(encoding="utf-8")


def test_python_of_the_pages_is_in_files() -> None:
    assert [label(block) for block in blocks_in("python") if not block.source] == []


@pytest.mark.parametrize("block", blocks_in("yaml"), ids=label)
def test_configurations_load(block: Block) -> None:
    if "kind: KubeSchedulerConfiguration" in block.text:
        assert loads(block.text).warnings == ()
    else:
        assert list(yaml.safe_load_all(block.text))


@pytest.mark.parametrize("block", blocks_in("toml"), ids=label)
def test_entry_points_load_their_plugins(block: Block) -> None:
    for name, reference in tomllib.loads(block.text)["project"]["entry-points"][GROUP].items():
        assert check_class(load_class(reference)) == name


def test_tests_of_the_guide_pass() -> None:
    module = importlib.import_module("test_gpu_model")
    tests = [test for name, test in vars(module).items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        test()


def config(*plugins: str) -> str:
    enabled = "".join(f"\n      - name: {plugin}" for plugin in plugins)
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    return f"{head}profiles:\n- plugins:\n    multiPoint:\n      enabled:{enabled}\n"


def test_headroom_reserves_half_of_the_cpu() -> None:
    harness = Harness((EXAMPLES / "headroom.yaml").read_text())
    harness.add(node("n", cpu="2"))
    for name in ("a", "b", "c"):
        harness.add(pod(name).requests(cpu="500m").scheduler("pyscheduler"))
    harness.run()
    assert harness.assignments == {"a": "n", "b": "n"}
    assert harness.pending_message("c").startswith("0/1 nodes are available: 1 node(s) would have too little headroom.")


def test_node_is_usable_after_its_maintenance_object_is_deleted() -> None:
    module = importlib.import_module("maintenance")
    harness = Harness(config("maintenance:Maintenance"))
    work = {"metadata": {"name": "disks"}, "spec": {"nodeName": "n"}}
    harness.add_object(module.MAINTENANCE, work)
    harness.add(node("n"), pod("a"))
    harness.run()
    assert harness.pending_message("a").startswith("0/1 nodes are available: 1 node(s) were under maintenance.")

    harness.add_object(module.MAINTENANCE, {**work, "metadata": {"name": "disks", "labels": {"seen": "yes"}}})
    harness.advance(3)
    assert harness.assignments == {}

    harness.remove_object(module.MAINTENANCE, "disks", "")
    harness.advance(3)
    assert harness.assignments == {"a": "n"}


def test_pair_is_bound_together() -> None:
    harness = Harness(config("pair:Pair"))
    harness.add(node("n"), pod("a").label("pair", "x"))
    harness.run()
    assert harness.assignments == {}
    harness.add(pod("b").label("pair", "x"), pod("alone"))
    harness.run()
    assert set(harness.assignments) == {"a", "b", "alone"}


def test_single_pod_of_a_pair_times_out() -> None:
    harness = Harness(config("pair:Pair"))
    harness.add(node("n"), pod("a").label("pair", "x"))
    harness.run()
    harness.advance(31)
    assert "rejected due to timeout after waiting 30s at plugin Pair" in harness.pending_message("a")


def test_pods_are_bound_as_licences_have_tokens() -> None:
    module = importlib.import_module("licence")
    harness = Harness(config("licence:LicenceToken"))
    cad = {"metadata": {"name": "cad"}, "spec": {"tokens": 1}}
    harness.add_object(module.LICENCE, cad)
    harness.add(node("n"), *(pod(name).label("licence", "cad") for name in "abc"))
    harness.run()
    (first,) = harness.assignments
    (second, third) = sorted({*"abc"} - {first})
    waits = 'waiting for plugin "LicenceToken": no token of licence cad is free'
    assert [harness.pending_message(name) for name in (second, third)] == [waits, waits]
    harness.delete_pod(first)
    assert len(harness.assignments) == 0, "two pods have a node, and there is one token"
    harness.add_object(module.LICENCE, {**cad, "spec": {"tokens": 2}})
    assert set(harness.assignments) == {second, third}


def test_packing_fills_one_node_first() -> None:
    harness = Harness(config("gpu_packing:GpuPacking"))
    gpu = "nvidia.com/gpu"
    nodes = [node(name).has(gpu, "4") for name in ("n1", "n2", "n3")]
    harness.add(*nodes, *(pod(name).request(gpu, "1") for name in "abcd"))
    harness.run()
    assert len(set(harness.assignments.values())) == 1
    plugin = importlib.import_module("gpu_packing").GpuPacking(None, harness.handle)
    running = [pod("r").request(gpu, "3").on("n2").build()]
    assert_forms_agree(plugin, pod("new").request(gpu, "1").build(), [n.build() for n in nodes], running)


class FakeApi:
    """An API server with one node, which records patches."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._node = {"metadata": {"name": "n", "labels": dict(labels)}}
        self.patched: list[tuple[str, Any]] = []

    async def get(self, path: str) -> dict[str, Any]:
        assert path == "/api/v1/nodes/n"
        return self._node

    async def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        self.patched.append((path, patch))
        return {}


def run_rack_note(api: FakeApi, target: Pod) -> Any:
    plugin = importlib.import_module("rack_note").RackNote(None, Harness().handle)
    return asyncio.run(plugin.pre_bind(None, target, "n", api))


def test_rack_is_written_to_the_pod() -> None:
    api = FakeApi({"rack": "r7"})
    assert run_rack_note(api, pod("a").build()) is None
    assert api.patched == [("/api/v1/namespaces/default/pods/a", {"metadata": {"annotations": {"rack": "r7"}}})]


def test_pod_is_not_bound_to_a_node_without_a_rack() -> None:
    assert run_rack_note(FakeApi({}), pod("a").build()) == Rejection("node(s) had no rack label")
    harness = Harness(config("rack_note:RackNote"))
    harness.add(node("n"), pod("a"))
    harness.run()
    assert "node(s) had no rack label" in harness.pending_message("a")
