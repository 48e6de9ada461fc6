"""Invalid input is reported in one line with the right exit code, without a traceback or partial effects."""

from __future__ import annotations

import logging
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from pyscheduler.cli.program import run as main

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Cli(Protocol):
    """Runs a command line; returns exit code, stdout and stderr."""

    def __call__(self, *args: object) -> tuple[int, str, str]: ...


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    def _run(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pyscheduler", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return int(ended.value.code or 0), out, err

    yield _run
    # The command has attached a log handler to a stream that is closed after the test.
    logging.getLogger().handlers.clear()
    logging.getLogger("pyscheduler").setLevel(logging.NOTSET)


CONFIGS = [
    pytest.param("profiles: [", ":4: not valid YAML: ", id="not YAML"),
    pytest.param("profilez: []", "profilez: unknown field", id="misspelt field"),
    pytest.param(
        "profiles: [{schedulerName: a, plugins: {score: {enabled: [{name: Nope}]}}}]",
        "profiles[0].plugins.score.enabled[0].name: ",
        id="unknown plugin",
    ),
    pytest.param(
        "profiles: [{schedulerName: a, pluginConfig: "
        "[{name: NodeResourcesFit, args: {scoringStrategy: {type: Foo}}}]}]",
        "profiles[0].pluginConfig[0].args.scoringStrategy.type: ",
        id="bad args",
    ),
    pytest.param(
        "profiles: [{schedulerName: a, plugins: {multiPoint: {enabled: [{name: 'no.such.module:Thing'}]}}}]",
        "no.such.module",
        id="plugin that cannot be imported",
    ),
]


@pytest.mark.parametrize("command", ["validate", "run"])
@pytest.mark.parametrize(("body", "message"), CONFIGS)
def test_error_names_the_place_in_the_config(run: Cli, tmp_path: Path, command: str, body: str, message: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD + body + "\n")
    args = ("config", "validate", file) if command == "validate" else ("run", "--config", file)
    code, _, err = run(*args)
    assert code == 1
    assert message in err
    assert all(line.startswith("pyscheduler: ") for line in err.splitlines())


def test_missing_config_is_reported(run: Cli, tmp_path: Path) -> None:
    code, _, err = run("run", "--config", tmp_path / "none.yaml")
    assert (code, err.count("\n")) == (1, 1)
    assert "none.yaml" in err


MANIFESTS = [
    pytest.param("kind: [", "bad.yaml:", "not valid YAML", id="not YAML"),
    pytest.param("just text", "bad.yaml: ", "must be a Kubernetes object", id="not an object"),
    pytest.param("apiVersion: v1\nkind: Pod", "bad.yaml: ", "metadata.name: is required", id="no name"),
    pytest.param(
        "apiVersion: pyscheduler.io/v1\nkind: Scenario\nnodePools: []",
        "bad.yaml: ",
        "a Scenario is read by `pyscheduler simulate`",
        id="scenario",
    ),
    pytest.param(
        "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: a}",
        "bad.yaml: ",
        "PodGroup is served in scheduling.k8s.io/v1beta1, scheduling.volcano.sh/v1beta1, scheduling.x-k8s.io/v1alpha1",
        id="other group",
    ),
    pytest.param(
        "apiVersion: v1\nkind: Podd\nmetadata: {name: a}", "bad.yaml: ", "no Podd in v1 is served", id="no such kind"
    ),
    pytest.param(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i, "
        "resources: {requests: {cpu: lots}}}]}",
        "bad.yaml: ",
        "containers[0].resources.requests[cpu]: 'lots' is not a quantity",
        id="bad quantity",
    ),
]


@pytest.mark.parametrize(("text", "place", "message"), MANIFESTS)
def test_invalid_manifest_is_rejected_before_anything_is_created(
    run: Cli, tmp_path: Path, text: str, place: str, message: str
) -> None:
    (tmp_path / "good.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fine}\n")
    (tmp_path / "bad.yaml").write_text(text)
    code, out, err = run("up", "--once", "--nodes", 1, "--apply", tmp_path)
    assert code == 1
    assert place in err
    assert message in err
    assert "What runs where" not in out


def test_port_in_use_is_reported(run: Cli) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        code, _, err = run("up", "--once", "--nodes", 1, "--port", port)
    assert (code, err.count("\n")) == (1, 1)
    assert str(port) in err


@pytest.mark.parametrize(
    "args",
    [
        ("fly",),
        ("up", "--nodes", "none"),
        ("up", "--node-cpu", "lots"),
        ("up", "--node-memory", "-1Gi"),
        ("run", "--nope"),
        ("config", "validate"),
        ("manifests",),
        ("manifests", "nope"),
        ("manifests", "second-scheduler"),
        ("--nope",),
        ("run", "--feature-gates", "Gang=true"),
        ("evaluate", "--feature-gates", "GenericWorkload"),
        ("config", "validate", "any.yaml", "--feature-gates", "GangScheduling=true"),
        ("up", "--once", "--feature-gates", "SidecarContainers=false"),
    ],
)
def test_wrong_usage_exits_with_2(run: Cli, args: tuple[str, ...]) -> None:
    code, _, err = run(*args)
    assert code == 2
    assert err.count("\n") == 1
    assert err.startswith("Error: ")
    assert re.search(r"; try 'pyscheduler[ a-z]* --help'$", err)


def test_up_once_prints_why_a_pod_is_unschedulable(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: big}\n"
        "spec: {schedulerName: pyscheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 64}}}]}\n"
    )
    code, out, _ = run("up", "--once", "--nodes", 2, "--timeout", 6, "--apply", tmp_path)
    assert code == 1
    assert "default/big: 0/2 nodes are available: 2 Insufficient cpu." in out


NEXT_STEPS = [
    pytest.param(
        ("bench", "plugin", "Nope"),
        'plugin "Nope" does not exist; `pyscheduler plugins list` shows all; '
        "module:Class names a class of a file in this folder",
        id="unknown plugin",
    ),
    pytest.param(
        ("bench", "plugin", "NodeName", "--pod", "nope.yaml"),
        "nope.yaml: cannot be read: No such file or directory; paths start at {folder}",
        id="missing pod file",
    ),
    pytest.param(
        ("bench", "plugin", "NodeName", "--args", "[1]"),
        "--args is not a mapping: write {{name: value}}",
        id="args that are a list",
    ),
    pytest.param(
        ("evaluate", "nope.jsonl"),
        "nope.jsonl: cannot be read: No such file or directory; paths start at {folder}",
        id="missing documents",
    ),
    pytest.param(
        ("tasks", "run"),
        "no kubeconfig was given and this is not a pod of a cluster: pass --kubeconfig FILE or set KUBECONFIG",
        id="tasks without a cluster",
    ),
    pytest.param(
        ("tasks", "run", "--kubeconfig", "nope"),
        "--kubeconfig nope does not exist; `pyscheduler up --kubeconfig-out nope` writes one",
        id="tasks with a missing kubeconfig",
    ),
]


@pytest.mark.parametrize(("args", "message"), NEXT_STEPS)
def test_error_says_what_to_do_next(
    run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("KUBERNETES_SERVICE_HOST", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    code, _, err = run(*args)
    assert (code, err) == (1, f"pyscheduler: {message.format(folder=tmp_path)}\n")
