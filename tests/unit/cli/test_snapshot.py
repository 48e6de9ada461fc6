"""`pyscheduler snapshot` writes the objects of a running cluster, without what is temporary or secret."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyscheduler.cli.cluster_dump import read_dumps
from pyscheduler.cli.program import app
from pyscheduler.embedded.server import ApiServer
from pyscheduler.testing import pod


@pytest.mark.parametrize(("flags", "secrets"), [((), []), (("--secrets",), ["s"])])
async def test_file_has_all_kinds_but_events_leases_and_secrets(
    tmp_path: Path, flags: tuple[str, ...], secrets: list[str]
) -> None:
    async with ApiServer() as server:
        api, file = server.api, tmp_path / "state.json"
        api.create(api.resource("pods"), "default", pod("p").manifest)
        for plural, name in (("secrets", "s"), ("events", "e")):
            body = {"metadata": {"name": name}}
            if plural == "events":
                body["involvedObject"] = {"kind": "Pod", "name": "p", "namespace": "default"}
            api.create(api.resource(plural), "default", body)
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        words = ["snapshot", str(file), "--kubeconfig", str(kubeconfig), *flags]
        result = await asyncio.to_thread(CliRunner().invoke, app, words)
    assert result.exit_code == 0, result.output
    objects = [placed.object for placed in read_dumps([file])]
    assert result.output == f"{file}: {len(objects)} objects\n"
    by_kind = {kind: [o["metadata"]["name"] for o in objects if o["kind"] == kind] for kind in ("Pod", "Secret")}
    assert by_kind == {"Pod": ["p"], "Secret": secrets}
    assert {obj["kind"] for obj in objects} & {"Event", "Lease"} == set()
    assert {obj["kind"] for obj in objects} >= {"Namespace", "ServiceAccount", "PriorityClass"}
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["kind"] == "List"
