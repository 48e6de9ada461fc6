"""Leader election flags override single fields of the file and are validated with it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyscheduler.cli.program import app
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.types import LeaderElection

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
FILE = f"{HEAD}leaderElection: {{leaderElect: true, leaseDuration: 20s, resourceName: mine}}\n"
INDEPENDENT = LeaderElection(leader_elect=False)


@pytest.fixture
def started_with(monkeypatch: pytest.MonkeyPatch) -> list[LoadedConfig]:
    """Record the configurations that the scheduler is started with."""
    configs: list[LoadedConfig] = []

    async def record(config: LoadedConfig, *_: Any) -> int:
        configs.append(config)
        return 0

    monkeypatch.setattr(import_module("pyscheduler.cli.run"), "_run", record)
    return configs


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["run", *args])


def test_bad_boolean_is_named_without_a_list_of_spellings() -> None:
    result = run("--leader-elect=maybe")
    assert (result.exit_code, "'maybe' is neither true nor false" in result.output) == (2, True), result.output


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param([], INDEPENDENT, id="no flags"),
        pytest.param(["--leader-elect"], LeaderElection(), id="without a value"),
        pytest.param(["--leader-elect", "--v", "2"], LeaderElection(), id="without a value, followed by another flag"),
        pytest.param(["--leader-elect=true"], LeaderElection(), id="=true"),
        pytest.param(["--leader-elect=false"], INDEPENDENT, id="=false"),
        pytest.param(
            [
                *("--leader-elect", "--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline", "2s"),
                *("--leader-elect-retry-period=500ms", "--leader-elect-resource-lock=leases"),
                *("--leader-elect-resource-name=n", "--leader-elect-resource-namespace=ns"),
            ],
            LeaderElection(True, 3.0, 2.0, 0.5, "leases", "n", "ns"),
            id="all flags",
        ),
    ],
)
def test_flags_without_a_file(started_with: list[LoadedConfig], flags: list[str], expected: LeaderElection) -> None:
    assert run(*flags).exit_code == 0
    assert started_with[0].configuration.leader_election == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param([], LeaderElection(lease_duration=20.0, resource_name="mine"), id="no flags"),
        pytest.param(
            ["--leader-elect=false"], LeaderElection(False, lease_duration=20.0, resource_name="mine"), id="one flag"
        ),
        pytest.param(
            ["--leader-elect-resource-name=other", "--leader-elect-retry-period=1s"],
            LeaderElection(lease_duration=20.0, retry_period=1.0, resource_name="other"),
            id="two flags",
        ),
    ],
)
def test_flags_override_the_file(
    started_with: list[LoadedConfig], tmp_path: Path, flags: list[str], expected: LeaderElection
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(FILE)
    assert run("--config", str(file), *flags).exit_code == 0
    assert started_with[0].configuration.leader_election == expected


def test_invalid_duration_is_wrong_usage(started_with: list[LoadedConfig]) -> None:
    result = run("--leader-elect-lease-duration", "soon")
    assert (result.exit_code, started_with) == (2, [])
    assert "--leader-elect-lease-duration" in result.output
    assert '"soon" is not a duration' in result.output


def test_flags_and_defaults_are_validated_together(started_with: list[LoadedConfig]) -> None:
    result = run("--leader-elect", "--leader-elect-lease-duration=5s")
    assert started_with == []
    assert "leaderElection.leaseDuration: Invalid value" in str(result.exception)
