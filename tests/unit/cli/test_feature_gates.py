"""`--feature-gates` applies to the profiles of each command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from pyscheduler.cli.program import app

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ON = ("--feature-gates", "GenericWorkload=true")
MEMBER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"containers": [], "schedulingGroup": {"podGroupName": "team"}},
}
GROUP = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "team", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}


def output(*args: str, stdin: str = "") -> str:
    result = CliRunner().invoke(app, args, input=stdin, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def config_file(tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(HEAD))
    return str(file)


def test_config_show_includes_plugins_enabled_by_gates(tmp_path: Path) -> None:
    file = config_file(tmp_path)
    assert "GangScheduling" not in output("config", "show", file)
    assert "GangScheduling" in output("config", "show", file, *ON)


def test_evaluate_runs_plugins_enabled_by_gates_with_any_configuration(tmp_path: Path) -> None:
    document: dict[str, Any] = {"id": 1, "objects": [GROUP, MEMBER]}
    both = "\n".join(json.dumps(d) for d in (document, document | {"config": HEAD}))
    rejection = "waiting for minCount pods from a gang to appear in scheduling queue"
    assert output("evaluate", *ON, stdin=both).count(rejection) == 2
    assert output("evaluate", *ON, "--config", config_file(tmp_path), stdin=both).count(rejection) == 2
    assert rejection not in output("evaluate", stdin=both)
