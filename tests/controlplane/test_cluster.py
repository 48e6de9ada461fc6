"""Start failures of a control plane of fake programs: error messages, retries and cleanup."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.cli.progress_bar import ProgressBar
from tests.controlplane import workspace
from tests.controlplane.arguments import Options
from tests.controlplane.build import CONTROL_PLANE, BuildError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import ProcessFailed
from tests.unit.cli.terminal import CLEAR, Terminal
from tests.unit.kube.virtual import VirtualClock

SLEEPS = "exec sleep 600"


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that sleep, and an empty parent for temporary folders."""
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(workspace, "_parent", lambda: tmp_path / "work")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    for name in CONTROL_PLANE:
        fake(tmp_path, name, SLEEPS)
    return tmp_path


def fake(assets: Path, name: str, does: str) -> None:
    """Write the program `name` that counts its starts and then runs `does`."""
    (assets / name).write_text(f"#!/bin/sh\necho started >> {assets / name}.starts\n{does}\n")
    (assets / name).chmod(0o755)


def starts(assets: Path, name: str) -> int:
    """Return how often the program was started."""
    log = assets / f"{name}.starts"
    return len(log.read_text().splitlines()) if log.exists() else 0


async def failure(options: Options | None = None) -> str:
    """Return the error message of a start that must fail."""
    with pytest.raises(ProcessFailed) as failed:
        await ControlPlane(options).__aenter__()
    return str(failed.value)


async def test_port_in_use_is_retried_once(assets: Path) -> None:
    fake(assets, "etcd", "echo 'listen tcp 127.0.0.1:2379: bind: address already in use'; exit 1")

    message = await failure()

    assert "etcd ended with code 1; its log ends:\nlisten tcp" in message
    assert starts(assets, "etcd") == 2


async def test_start_shows_its_step_on_a_terminal(assets: Path) -> None:
    terminal, clock = Terminal(), VirtualClock()
    clock.step = 3.0
    progress = ProgressBar("control plane", stream=terminal, clock=clock)

    with pytest.raises(ProcessFailed, match="was not ready in time"):
        await ControlPlane(Options(start_seconds=0.1), progress).__aenter__()

    _, bar, *_, end = terminal.getvalue().split(CLEAR)
    assert bar == "[------------------------] control plane: starting kube-apiserver, 0 of 2, 3 s"
    assert end == ""


async def test_other_failures_are_reported_at_once_with_the_log(assets: Path) -> None:
    fake(assets, "etcd", "echo 'disk is full'; exit 4")

    assert await failure() == "etcd ended with code 4; its log ends:\ndisk is full"
    assert starts(assets, "etcd") == 1


async def test_api_server_that_is_never_ready_times_out(assets: Path) -> None:
    assert "kube-apiserver was not ready in time" in await failure(Options(start_seconds=0.3))


async def test_failed_start_removes_its_folder(assets: Path) -> None:
    await failure(Options(start_seconds=0.3))

    assert list((assets / "work").iterdir()) == []


async def test_extra_flags_are_passed_to_the_program(assets: Path) -> None:
    fake(assets, "etcd", 'echo "$@"; exit 1')

    assert "--max-txn-ops=7" in await failure(Options(extra={"etcd": ("--max-txn-ops=7",)}))


async def test_missing_program_is_reported(assets: Path) -> None:
    (assets / "kube-apiserver").unlink()

    with pytest.raises(BuildError, match="has no kube-apiserver"):
        await ControlPlane().__aenter__()
