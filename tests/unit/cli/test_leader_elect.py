"""The flags of leader election: they go before the file, field by field, and are checked with it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyscheduler.cli import app
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.types import LeaderElection

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
FILE = f"{HEAD}leaderElection: {{leaderElect: true, leaseDuration: 20s, resourceName: mine}}\n"
INDEPENDENT = LeaderElection(leader_elect=False)


@pytest.fixture
def ran_with(monkeypatch: pytest.MonkeyPatch) -> list[LoadedConfig]:
    """The configurations that the scheduler would have run with."""
    seen: list[LoadedConfig] = []

    async def note(config: LoadedConfig, *_: Any) -> int:
        seen.append(config)
        return 0

    monkeypatch.setattr(import_module("pyscheduler.cli.run"), "_run", note)
    return seen


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["run", *args])


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param([], INDEPENDENT, id="none: no election"),
        pytest.param(["--leader-elect"], LeaderElection(), id="on"),
        pytest.param(["--leader-elect", "--v", "2"], LeaderElection(), id="on, with another flag behind it"),
        pytest.param(["--leader-elect=true"], LeaderElection(), id="on, said in full"),
        pytest.param(["--leader-elect=false"], INDEPENDENT, id="off"),
        pytest.param(
            [
                *("--leader-elect", "--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline", "2s"),
                *("--leader-elect-retry-period=500ms", "--leader-elect-resource-lock=leases"),
                *("--leader-elect-resource-name=n", "--leader-elect-resource-namespace=ns"),
            ],
            LeaderElection(True, 3.0, 2.0, 0.5, "leases", "n", "ns"),
            id="all of them",
        ),
    ],
)
def test_without_a_file(ran_with: list[LoadedConfig], flags: list[str], expected: LeaderElection) -> None:
    assert run(*flags).exit_code == 0
    assert ran_with[0].configuration.leader_election == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param([], LeaderElection(lease_duration=20.0, resource_name="mine"), id="none"),
        pytest.param(
            ["--leader-elect=false"], LeaderElection(False, lease_duration=20.0, resource_name="mine"), id="one"
        ),
        pytest.param(
            ["--leader-elect-resource-name=other", "--leader-elect-retry-period=1s"],
            LeaderElection(lease_duration=20.0, retry_period=1.0, resource_name="other"),
            id="two",
        ),
    ],
)
def test_before_a_file(
    ran_with: list[LoadedConfig], tmp_path: Path, flags: list[str], expected: LeaderElection
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(FILE)
    assert run("--config", str(file), *flags).exit_code == 0
    assert ran_with[0].configuration.leader_election == expected


def test_a_duration_that_is_none_is_wrong_usage(ran_with: list[LoadedConfig]) -> None:
    result = run("--leader-elect-lease-duration", "soon")
    assert (result.exit_code, ran_with) == (2, [])
    assert "--leader-elect-lease-duration" in result.output
    assert '"soon" is not a duration' in result.output


def test_flags_and_file_are_checked_together(ran_with: list[LoadedConfig]) -> None:
    result = run("--leader-elect", "--leader-elect-lease-duration=5s")
    assert ran_with == []
    assert "leaderElection.leaseDuration: Invalid value" in str(result.exception)
