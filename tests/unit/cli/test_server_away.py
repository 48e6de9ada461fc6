"""Commands print one line that names what is missing if no API server listens at the address of the kubeconfig."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from pyscheduler.backend.state.request_queue import RequestQueue
from pyscheduler.backend.task import TaskPhase
from pyscheduler.cli.program import run as main
from pyscheduler.clock import SystemClock
from pyscheduler.kube.connection import UNAVAILABLE_RETRY
from tests.tasks.records import record
from tests.unit.cli.test_tasks import save

KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:PORT"}}]
users: [{name: u, user: {}}]
"""
SOURCE = '{"kubeconfig": "kubeconfig", "context": "", "namespace": "default", "name": "tasks"}'
"""Cluster of the last `tasks run`, as it is stored in the state file."""


@pytest.mark.parametrize("command", ["tasks orphans list", "tasks logs done", "groups", "nodes fail node-1"])
def test_api_server_that_is_away_is_named(
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    unused_tcp_port: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "kubeconfig")
    Path("kubeconfig").write_text(KUBECONFIG.replace("PORT", str(unused_tcp_port)))
    save(record("done", phase=TaskPhase.SUCCEEDED))
    with RequestQueue(Path("tasks.db")) as queue:
        queue.set_meta("source", SOURCE)
    monkeypatch.setattr(sys, "argv", ["pyscheduler", *command.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    server = f"http://127.0.0.1:{unused_tcp_port}"
    err = capfd.readouterr().err
    assert (ended.value.code, len(err.splitlines())) == (1, 1)
    assert err.startswith(f"pyscheduler: cannot reach {server} named by context c of kubeconfig")
    assert err.endswith(": connection refused; is the API server running?\n")


def test_run_waits_for_the_api_server_until_sigterm(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, unused_tcp_port: int
) -> None:
    """A static pod starts with its API server; a crash loop would delay scheduling by minutes."""
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG.replace("PORT", str(unused_tcp_port)))
    attempts = iter(range(3))

    async def sleep(_: SystemClock, seconds: float) -> None:
        if seconds == UNAVAILABLE_RETRY and next(attempts) < 2:
            return
        if seconds == UNAVAILABLE_RETRY:
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    monkeypatch.setattr(sys, "argv", ["pyscheduler", "run", "--kubeconfig", str(file), "--secure-port=0"])
    with pytest.raises(SystemExit) as ended:
        main()
    err = capfd.readouterr().err
    assert ended.value.code == 0
    assert err.count("API server is not available, retrying") == 1
    assert f"cannot reach http://127.0.0.1:{unused_tcp_port}" in err
    assert '"Stopping"' in err
