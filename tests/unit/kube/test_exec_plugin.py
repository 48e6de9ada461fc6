"""Exec credential plugin that fails after it has worked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.api import ApiError
from pyscheduler.kube import credentials
from pyscheduler.kube.connection import ConnectionOptions, connect
from tests.unit.kube.fake_api import FakeApi, ok, refused
from tests.unit.kube.fixtures import write_kubeconfig
from tests.unit.kube.virtual import VirtualClock

PATH = "/api/v1/things"
EXEC = """
exec:
  apiVersion: client.authentication.k8s.io/v1
  command: {command}
  interactiveMode: Never
"""
GIVES = """#!/bin/sh
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "first"}}'
"""


@pytest.mark.parametrize("then", ["exec sleep 60", "exit 1", "echo nonsense"])
async def test_token_stays_in_use_when_the_exec_plugin_fails_later(
    api: FakeApi, tmp_path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(GIVES)
    plugin.chmod(0o755)
    file = write_kubeconfig(tmp_path, api.url, user=EXEC.format(command=plugin))
    connection = await connect(file, ConnectionOptions(qps=-1), clock)
    monkeypatch.setattr(credentials, "DEADLINE", 0.5)
    plugin.write_text(f"#!/bin/sh\n{then}\n")
    clock.at += credentials.REREAD_AFTER + 1
    api.script(PATH, ok({}), refused(401, "Unauthorized"), refused(401, "Unauthorized"))
    await connection.request("POST", PATH, b"{}")
    with pytest.raises(ApiError) as caught:
        await connection.request("POST", PATH, b"{}")
    await connection.close()
    assert caught.value.status == 401
    assert {call.authorization for call in api.calls} == {"Bearer first"}
