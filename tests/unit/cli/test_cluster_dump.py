"""Dumps of `up --load`: the formats that kubectl writes, and one line for a file that is not one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyscheduler.cli.cluster_dump import read_dumps
from pyscheduler.cli.command_problem import CommandProblem

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}
NODE_LIST = {"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n"}}]}
"""A list as in `cluster-info dump`, whose items have no kind."""
YAML_LIST = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: p, creationTimestamp: 2026-01-02T03:04:05Z}}
---
apiVersion: v1
kind: Node
metadata: {name: n}
"""


def kinds(*paths: Path) -> list[tuple[str, str]]:
    return [(placed.object["kind"], placed.object["metadata"]["name"]) for placed in read_dumps(paths)]


def test_yaml_of_kubectl_get_is_read_with_times_as_text(tmp_path: Path) -> None:
    file = tmp_path / "dump.yaml"
    file.write_text(YAML_LIST)
    assert kinds(file) == [("Pod", "p"), ("Node", "n")]
    assert read_dumps([file])[0].object["metadata"]["creationTimestamp"] == "2026-01-02T03:04:05Z"


def test_folder_of_cluster_info_dump_is_read_without_its_logs(tmp_path: Path) -> None:
    (tmp_path / "a" / "p").mkdir(parents=True)
    (tmp_path / "nodes.json").write_text(json.dumps(NODE_LIST))
    (tmp_path / "a" / "pods.json").write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [POD]}))
    (tmp_path / "a" / "p" / "logs.txt").write_text("not JSON")
    assert kinds(tmp_path) == [("Pod", "p"), ("Node", "n")]


def test_output_of_cluster_info_dump_is_read_without_its_logs(tmp_path: Path) -> None:
    file = tmp_path / "dump"
    logs = "==== START logs for container c of pod a/p ====\n{not json\n==== END logs for container c of pod a/p ====\n"
    file.write_text(f"{json.dumps(NODE_LIST, indent=4)}\n{logs}{json.dumps(POD)}\n")
    assert kinds(file) == [("Node", "n"), ("Pod", "p")]


def test_empty_list_has_no_objects(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text('{"apiVersion": "v1", "kind": "List", "items": null}')
    assert kinds(file) == []


BAD = [
    ("{", "dump: not valid JSON: "),
    ("a: [", "not valid YAML: "),
    ("just text", "dump: must be a Kubernetes object or a list of them, is str"),
    ("[1]", "dump: must be a Kubernetes object or a list of them, is list"),
    ("kind: Pod\nmetadata: {name: a}", "dump: apiVersion: is required"),
    ("apiVersion: v1\nkind: 3", "dump: kind: is required"),
    ("apiVersion: v1\nkind: Pod\nmetadata: [a]", "dump: metadata.name: is required"),
    ("apiVersion: v1\nkind: Pod\nmetadata: {name: 7}", "dump: metadata.name: is required"),
    ("apiVersion: v1\nkind: List\nitems: {a: b}", "dump: items: must be a list, is dict"),
    ("apiVersion: v1\nkind: List\nitems: [1]", "dump: items[0]: must be a Kubernetes object"),
    ("apiVersion: v1\nkind: PodList\nitems: [{spec: {}}]", "dump: items[0]: metadata.name: is required"),
    ("[" * 100_000, "dump: not readable: nested too deeply"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_file_that_is_no_dump_is_reported_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "dump"
    file.write_text(text)
    with pytest.raises(CommandProblem) as error:
        read_dumps([file])
    assert message in str(error.value)


def test_folder_without_dumps_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandProblem, match=r"has no \.yaml, \.yml or \.json files"):
        read_dumps([tmp_path])
