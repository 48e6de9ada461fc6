"""Command lines of static pods: kubeadm's for kube-scheduler, and hardened ones."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from pyscheduler.cli.run import run
from tests.controlplane.build import binaries
from tests.controlplane.process import free_ports
from tests.e2e.plane import Plane
from tests.e2e.workloads import hollow_nodes, placed, pod, pod_spec

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONF = "/etc/kubernetes/scheduler.conf"
"""The kubeconfig of system:kube-scheduler on a control-plane node."""
KUBEADM = (
    "kube-scheduler",
    f"--authentication-kubeconfig={CONF}",
    f"--authorization-kubeconfig={CONF}",
    "--bind-address=127.0.0.1",
    f"--kubeconfig={CONF}",
    "--leader-elect=true",
)
"""The command of kubeadm's static pod."""
HARDENED = (
    *("--profiling=false", "--tls-min-version=VersionTLS12", "-v=2", "--leader-elect-lease-duration=30s"),
    *("--leader-elect-renew-deadline=20s", "--leader-elect-retry-period=1s"),
    "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    *("--kube-api-qps=100", "--kube-api-burst=200", "--authorization-always-allow-paths=/healthz,/readyz,/livez"),
    *("--authentication-tolerate-lookup-failure=false", "--disable-http2-serving", "--log-flush-frequency=5s"),
    *("--feature-gates=VolumeLimitScaling=false", "--emulated-version=1.36", "--show-hidden-metrics-for-version="),
)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
PROBES = ("/livez", "/readyz", "/healthz")
SECONDS = 60.0


@asynccontextmanager
async def started(arguments: Sequence[str], folder: Path) -> AsyncIterator[Path]:
    """`pyscheduler run` with these arguments, until the block ends; it must stop cleanly then. Gives its log."""
    log = folder / "scheduler.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pyscheduler", "run", *arguments, stdout=out, stderr=out, env={**os.environ}
        )
    try:
        yield log
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        code = await asyncio.wait_for(process.wait(), SECONDS)
    assert code == 0, _end_of(log)


async def probed(port: int, path: str) -> int:
    """Return the status of the kubelet's probe, which verifies no certificate; 0 without a response."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://127.0.0.1:{port}{path}", ssl=False) as answer,
        ):
            return answer.status
    except aiohttp.ClientError:
        return 0


async def until_ready(port: int, log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while [await probed(port, path) for path in PROBES] != [200] * len(PROBES):
        assert time.monotonic() < deadline, _end_of(log)
        await asyncio.sleep(0.2)


def _end_of(log: Path) -> str:
    return log.read_text()[-4000:]


@pytest.mark.parametrize("more", [(), HARDENED], ids=["kubeadm", "hardened"])
async def test_command_line_of_a_static_pod_works_unchanged(
    control_plane: Plane, namespace: str, tmp_path: Path, more: tuple[str, ...]
) -> None:
    real = control_plane.real
    if real is None:
        pytest.skip("needs the real control plane: pytest tests/e2e --control-plane=real")
    conf, (port,) = str(real.kubeconfig_for("system:kube-scheduler")), free_ports(1)
    arguments = [argument.replace(CONF, conf) for argument in (*KUBEADM[1:], *more)]
    arguments += [f"--secure-port={port}"]
    async with hollow_nodes(control_plane, namespace, 1), started(arguments, tmp_path) as log:
        await until_ready(port, log)
        assert await probed(port, "/metrics") == 403
        pods = f"/api/v1/namespaces/{namespace}/pods"
        await control_plane.api.create(pods, pod("a", pod_spec("default-scheduler", namespace)))
        await control_plane.api.until(pods, lambda found: len(placed(found)) == 1)
    lease = await control_plane.api.get(LEASE)
    assert lease["spec"]["holderIdentity"] in ("", None), "it has given the lease back"
    await control_plane.api.delete(LEASE)


async def test_master_flag_overrides_the_kubeconfig(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    elsewhere, (port,) = tmp_path / "kubeconfig", free_ports(1)
    elsewhere.write_text(control_plane.kubeconfig.read_text().replace(control_plane.api.server, "https://127.0.0.1:1"))
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"leaderElection: {{leaderElect: false}}\nprofiles: [{{schedulerName: {namespace}}}]\n"
    )
    arguments = [f"--config={config}", f"--kubeconfig={elsewhere}", f"--master={control_plane.api.server}"]
    serving = ["--bind-address=127.0.0.1", f"--secure-port={port}"]
    async with hollow_nodes(control_plane, namespace, 1), started([*arguments, *serving], tmp_path) as log:
        await until_ready(port, log)
        pods = f"/api/v1/namespaces/{namespace}/pods"
        await control_plane.api.create(pods, pod("a", pod_spec(namespace, namespace)))
        await control_plane.api.until(pods, lambda found: len(placed(found)) == 1)


def flags_of(*command: str) -> set[str]:
    """Return the flags in a program's help."""
    help_text = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)", help_text, re.MULTILINE))


async def test_every_flag_of_kube_scheduler_is_accepted(control_plane: Plane) -> None:
    if control_plane.real is None:
        pytest.skip("needs the real kube-scheduler: pytest tests/e2e --control-plane=real")
    theirs = await asyncio.to_thread(flags_of, str(binaries() / "kube-scheduler"))
    ours = {option.lstrip("-") for parameter in run.params for option in parameter.opts}
    assert {"config", "leader-elect", "vmodule"} <= theirs
    assert theirs - ours == {"help"}, "which every command has"
