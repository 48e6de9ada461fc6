"""Every option of every command rejects a bad value in one line that names the option, before anything starts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from pyscheduler.cli.program import app
from pyscheduler.cli.program import run as main

Command = tuple[str, ...]


class CommandOption(NamedTuple):
    """Option of a command."""

    command: Command
    option: click.Option

    @property
    def flag(self) -> str:
        return max(self.option.opts, key=len)

    @property
    def name(self) -> str:
        return " ".join((*self.command, self.flag))


ARGUMENTS: dict[Command, tuple[str, ...]] = {
    ("bench", "plugin"): ("NodeName",),
    ("completion",): ("bash",),
    ("config", "from-volcano"): ("{folder}/config.yaml",),
    ("config", "show"): ("{folder}/config.yaml",),
    ("config", "validate"): ("{folder}/config.yaml",),
    ("evaluate",): ("{folder}/config.yaml",),
    ("explain",): ("a",),
    ("manifests",): ("second-scheduler", "--image", "a"),
    ("nodes", "add"): ("--kubeconfig", "{folder}/none"),
    ("nodes", "drain"): ("a", "--kubeconfig", "{folder}/none"),
    ("nodes", "fail"): ("a", "--kubeconfig", "{folder}/none"),
    ("nodes", "recover"): ("a", "--kubeconfig", "{folder}/none"),
    ("nodes", "remove"): ("a", "--kubeconfig", "{folder}/none"),
    ("replay",): ("{folder}/config.yaml", "--pod", "a"),
    ("simulate",): ("{folder}/config.yaml",),
    ("snapshot",): ("{folder}/snapshot.json",),
    ("run",): ("--leader-elect",),
    ("queue", "resume"): ("a",),
    ("queue", "stop"): ("a",),
    ("tasks", "kill"): ("a",),
    ("tasks", "forget"): ("a",),
    ("tasks", "logs"): ("a",),
    ("tasks", "orphans", "adopt"): ("a",),
    ("tasks", "orphans", "release"): ("a",),
    ("tasks", "show"): ("a",),
    ("tasks", "submit"): ("a", "--image", "i"),
    ("tasks", "run"): ("--kubeconfig", "{folder}/config.yaml"),
    ("up",): ("--once", "--timeout", "0"),
}
"""Arguments with which the bad value is the only problem."""
ANY_TEXT = {
    *("run --leader-elect-resource-name", "run --leader-elect-resource-namespace"),
    *("run --requestheader-allowed-names", "run --requestheader-username-headers"),
    *("run --requestheader-uid-headers", "run --requestheader-group-headers"),
    *("run --requestheader-extra-headers-prefix", "run --kube-api-content-type"),
    *("config from-volcano --scheduler-name", "groups --scheduler", "queues --scheduler"),
    *("groups --namespace", "groups --queue", "explain --namespace", "explain --node"),
    *(f"nodes {action} --pool" for action in ("add", "drain", "fail", "recover", "remove")),
    *("tasks submit --queue", "tasks submit --scheduler", "tasks submit --priority-class", "tasks submit --image"),
    *("tasks list --queue", "tasks list --id", "tasks kill --queue"),
    *("tasks run --scheduler", "tasks run --namespace", "tasks run --name", "tasks run --context"),
    *("tasks submit --arg", "tasks submit --pull-secret", "tasks submit --service-account", "tasks logs --container"),
    *(f"tasks orphans {action} --{name}" for action in ("adopt", "list", "release") for name in ("namespace", "name")),
    *(f"tasks orphans {action} --context" for action in ("adopt", "list", "release")),
}
"""Options whose values are names of objects, which the API server validates, or patterns."""
BAD: dict[str, str] = {
    "--apply": "{folder}/none",
    "--at": "yesterday",
    "--args": "[1]",
    "--annotation": "=",
    "--authorization-always-allow-paths": "/a*b",
    "--bind-address": "not an address",
    "--budget": "cpu=lots",
    "--cert-dir": "{folder}/config.yaml",
    "--cluster": "{folder}/none",
    "--config": "{folder}/none",
    "--contenders": "nope",
    "--cpu": "lots",
    "--env": "=",
    "--feature-gates": "Nope=true",
    "--file": "{folder}/none",
    "--gang": "a",
    "--html": "{folder}",
    "--image": "a b",
    "--json": "{folder}",
    "--kubeconfig": "{folder}/none",
    "--kubeconfig-out": "{folder}",
    "--label": "=",
    "--latency": "soon",
    "--leader-elect-resource-lock": "configmaps",
    "--limit": "memory=lots",
    "--load": "{folder}/none",
    "--logs": "{folder}/config.yaml",
    "--logging-format": "xml",
    "--markdown": "{folder}",
    "--master": "nowhere",
    "--memory": "-1Gi",
    "--namespace": "A_B",
    "--node": "{folder}/none",
    "--node-cpu": "lots",
    "--node-memory": "-1Gi",
    "--node-selector": "=",
    "--output": "{folder}",
    "--param": "a=b",
    "--pod": "{folder}/none",
    "--record": "{folder}/config.yaml",
    "--resource": "nvidia.com/gpu=lots",
    "--restore": "{folder}/none",
    "--retry": "application=often",
    "--scheduler-command": "'open quote",
    "--snapshot": "{folder}",
    "--state": "{folder}",
    "--svg": "{folder}",
    "--tls-cipher-suites": "NOPE",
    "--tls-curve-preferences": "X25519",
    "--toleration": "=",
    "--tls-min-version": "VersionTLS10",
    "--tls-sni-cert-key": "a,b",
    "--workload": "Nope",
    "--write-config-to": "{folder}",
}
"""Bad values of options whose type rejects none."""
DURATIONS = ("duration", "ttl", "deadline", "period")
IGNORED = "has no effect"


def options() -> Iterator[CommandOption]:
    """Yield every option of every command that takes a value, hidden ones included."""

    def below(command: click.Command, path: Command) -> Iterator[CommandOption]:
        if isinstance(command, click.Group):
            with click.Context(command) as context:
                for name in command.list_commands(context):
                    found = command.get_command(context, name)
                    assert found is not None
                    yield from below(found, (*path, name))
            return
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.is_flag:
                yield CommandOption(path, parameter)

    yield from below(app, ())


def bad_value(tested: CommandOption) -> str:
    """Return a value that the option has to reject, "" if there is none."""
    kind = tested.option.type
    if tested.name in ANY_TEXT or "has no effect" in _ignored(tested):
        return ""
    if tested.flag in BAD and not isinstance(kind, click.Choice):
        return BAD[tested.flag]
    if isinstance(kind, click.Choice | click.types.BoolParamType):
        return "nope"
    if isinstance(kind, click.IntRange) and kind.max is not None:
        return str(kind.max + 1)
    if isinstance(kind, click.types.IntParamType | click.types.FuncParamType):
        return "many"
    if isinstance(kind, click.types.FloatParamType):
        return "nan"
    if isinstance(kind, click.Path):
        return "{folder}/none"
    if any(word in tested.flag for word in DURATIONS):
        return "soon"
    return "bad value"


def _ignored(tested: CommandOption) -> str:
    from pyscheduler.cli.compat import IGNORED as FLAGS

    return "has no effect" if tested.flag.removeprefix("--") in {flag.name for flag in FLAGS} else ""


OPTIONS = {tested.name: tested for tested in options() if bad_value(tested)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Current directory without tasks and without credentials."""
    (tmp_path / "config.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBERNETES_SERVICE_HOST", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    logging.getLogger().handlers.clear()
    logging.getLogger("pyscheduler").setLevel(logging.NOTSET)


@pytest.mark.parametrize("tested", OPTIONS.values(), ids=OPTIONS)
def test_bad_value_is_rejected_in_one_line_that_names_the_option(
    tested: CommandOption, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    value = bad_value(tested).format(folder=folder)
    arguments = [word.format(folder=folder) for word in ARGUMENTS.get(tested.command, ())]
    flags = arguments if tested.flag not in arguments else arguments[: arguments.index(tested.flag)]
    monkeypatch.setattr(sys, "argv", ["pyscheduler", *tested.command, *flags, f"{tested.flag}={value}"])
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None)  # click's program name under `python -m pytest`
    with pytest.raises(SystemExit) as ended:
        main()
    _, err = capfd.readouterr()
    assert ended.value.code in (1, 2), err
    assert "Traceback" not in err
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert tested.flag in lines[0] or value.rpartition("=")[2] in lines[0], err


def test_every_text_that_is_not_rejected_is_an_option() -> None:
    assert {tested.name for tested in options()} >= ANY_TEXT
