"""`--feature-gates` reaches what each command builds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from pyscheduler.cli import app

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
BOTH = ("--feature-gates", "GenericWorkload=true", "--feature-gates", "GangScheduling=true")
MEMBER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"containers": [], "schedulingGroup": {"podGroupName": "team"}},
}
GROUP = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "team", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}


def said(*args: str, given: str = "") -> str:
    result = CliRunner().invoke(app, args, input=given, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def config_file(tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(HEAD))
    return str(file)


def test_config_show_has_the_plugins_of_the_gates(tmp_path: Path) -> None:
    file = config_file(tmp_path)
    assert "GangScheduling" not in said("config", "show", file)
    assert "GangScheduling" in said("config", "show", file, *BOTH)


def test_config_validate_tells_what_the_gates_do_not_bring(tmp_path: Path) -> None:
    file = config_file(tmp_path)
    assert "feature gate GenericWorkload: " not in said("config", "validate", file)
    assert "feature gate GenericWorkload: " in said("config", "validate", file, *BOTH)


def test_evaluate_asks_the_plugins_of_the_gates_whatever_the_configuration(tmp_path: Path) -> None:
    document: dict[str, Any] = {"id": 1, "objects": [GROUP, MEMBER]}
    both = "\n".join(json.dumps(d) for d in (document, document | {"config": HEAD}))
    waits = "waiting for minCount pods from a gang to appear in scheduling queue"
    assert said("evaluate", *BOTH, given=both).count(waits) == 2
    assert said("evaluate", *BOTH, "--config", config_file(tmp_path), given=both).count(waits) == 2
    assert waits not in said("evaluate", given=both)
