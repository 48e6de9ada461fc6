"""The real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

Run `python -m tests.controlplane.cluster` to start one by hand: it prints the `export KUBECONFIG` line for kubectl.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self

from pyscheduler.cli.progress_bar import ProgressBar
from tests.controlplane import arguments, workspace
from tests.controlplane.access import ADMIN_GROUP, Access
from tests.controlplane.arguments import LOOPBACK, Options, Ports
from tests.controlplane.build import CONTROL_PLANE, REQUIRED, BuildError, binaries, build_progress, to_stderr
from tests.controlplane.process import Process, ProcessFailed, free_ports
from tests.controlplane.scheduler import KubeScheduler, config_document, is_healthy
from tests.e2e.client import ApiClient

PORT_TAKEN = "address already in use"
DAY_SECONDS = 24 * 3600


class ControlPlane:
    """A control plane as an async context manager; inside it, `api` and `kubeconfig` are the administrator's.

    Entering raises BuildError or ProcessFailed; their texts have cause and remedy.
    """

    kubeconfig: Path
    api: ApiClient

    def __init__(self, options: Options | None = None, progress: ProgressBar | None = None) -> None:
        self.options = options or Options()
        self._progress = progress or build_progress()
        self.processes: dict[str, Process] = {}
        self._flags: dict[str, Sequence[str]] = {}
        self._exit = AsyncExitStack()

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://{LOOPBACK}:{self._ports.api_server}"

    @property
    def etcd(self) -> str:
        """URL of etcd: plain HTTP."""
        return f"http://{LOOPBACK}:{self._ports.etcd}"

    @property
    def authority(self) -> Path:
        """CA certificate of all serving certificates."""
        return self._access.authority

    @property
    def serving_flags(self) -> list[str]:
        """Serving flags of a scheduler with this control plane's certificates."""
        return arguments.serving(self._access)

    @property
    def logs(self) -> Path:
        """Folder with one log file per process."""
        return self._folder / "logs"

    async def __aenter__(self) -> Self:
        release = self.options.release
        names = REQUIRED if release else CONTROL_PLANE
        self._binaries = await asyncio.to_thread(binaries, names, self._progress, release)
        try:
            await self._start()
        except ProcessFailed as error:
            if PORT_TAKEN not in str(error):
                raise
            await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()

    def kubeconfig_for(self, user: str, groups: Sequence[str] = (), server: str | None = None) -> Path:
        """Write a kubeconfig with a client certificate for `user` and `groups`; `server` may be a proxy's URL."""
        return self._access.for_user(server or self.server, user, groups)

    async def kubeconfig_for_service_account(self, namespace: str, name: str, server: str | None = None) -> Path:
        """Write a kubeconfig with a token of an existing service account, valid for a day. ApiError.

        `server` may be a proxy's URL.
        """
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        created = await self.api.create(path, {**request, "spec": {"expirationSeconds": DAY_SECONDS}})
        return self._access.for_token(server or self.server, f"{namespace}:{name}", created["status"]["token"])

    @asynccontextmanager
    async def kube_scheduler(
        self, config: str | None = None, server: str | None = None
    ) -> AsyncIterator[KubeScheduler]:
        """Run the real kube-scheduler with this KubeSchedulerConfiguration (YAML text); yield it once it is ready.

        `server` may be a proxy's URL.
        """
        [port] = free_ports(1)
        kubeconfig = self.kubeconfig_for("system:kube-scheduler", server=server)
        file = self._folder / f"scheduler-{port}.yaml"
        file.write_text(config_document(config, str(kubeconfig)))
        process = self._run("kube-scheduler", arguments.scheduler(port, self._access, file, kubeconfig))
        scheduler = KubeScheduler(process, port, self.api)
        try:
            await process.until(scheduler.ready, time.monotonic() + self.options.start_seconds)
            yield scheduler
        finally:
            await process.stop()

    async def _start(self) -> None:
        """Start on new ports and in a new folder; a failed start removes everything."""
        try:
            await self._start_all()
        except BaseException:
            await self._exit.aclose()
            raise
        finally:
            self._progress.clear()

    async def _start_all(self) -> None:
        deadline = time.monotonic() + self.options.start_seconds
        self._folder = workspace.create()
        self._exit.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self.logs.mkdir()
        self._ports = Ports(*free_ports(4))
        self._access = Access(self._folder)
        self.kubeconfig = self.kubeconfig_for("admin", [ADMIN_GROUP])
        self.api = await self._exit.enter_async_context(ApiClient(self.kubeconfig))
        await self._start_etcd_and_api_server(deadline)
        await self._start_controller_manager(deadline)
        if self.options.scheduler:
            await self._exit.enter_async_context(self.kube_scheduler())

    async def _start_etcd_and_api_server(self, deadline: float) -> None:
        """Start both at once: the API server waits for etcd, and takes the longest of all."""
        etcd = self._run_until_exit("etcd", arguments.etcd(self._ports, self._folder / "etcd"))
        api_server = self._run_until_exit(
            "kube-apiserver", arguments.api_server(self._ports, self._access, self.options)
        )

        async def ready() -> bool:
            self._progress.show("starting kube-apiserver", 0, self._start_steps)
            if not etcd.alive:
                await etcd.until(_never, deadline)
            return await is_healthy(self.api, "/readyz")

        await api_server.until(ready, deadline)

    async def _start_controller_manager(self, deadline: float) -> None:
        kubeconfig = self.kubeconfig_for("system:kube-controller-manager")
        flags = arguments.controller_manager(self._ports, self._access, self.options, kubeconfig)
        process = self._run_until_exit("kube-controller-manager", flags)
        address = f"https://{LOOPBACK}:{self._ports.controller_manager}"

        async def ready() -> bool:
            self._progress.show("starting kube-controller-manager", 1, self._start_steps)
            return await is_healthy(self.api, "/healthz", address)

        await process.until(ready, deadline)

    @property
    def _start_steps(self) -> int:
        """Number of steps of a start; the scheduler's is the last, and quick."""
        return 3 if self.options.scheduler else 2

    async def restart(self, name: str) -> None:
        """Kill etcd or the API server, and restart it with its data.

        Return once the API server is ready. ProcessFailed if it does not become ready.
        """
        self.processes[name].kill()
        process = self._run_until_exit(name, self._flags[name])
        await process.until(lambda: is_healthy(self.api, "/readyz"), time.monotonic() + self.options.start_seconds)

    def _run_until_exit(self, name: str, flags: Sequence[str]) -> Process:
        """Run a program until the control plane's context is left."""
        process = self._run(name, flags)
        self._exit.push_async_callback(process.stop)
        return process

    def _run(self, name: str, flags: Sequence[str]) -> Process:
        program = self._binaries / name
        if not program.exists():
            raise BuildError(f"{self._binaries} has no {name}; add it there or unset KUBEBUILDER_ASSETS")
        command = [str(program), *flags, *self.options.extra.get(name, ())]
        self._flags[name] = flags
        self.processes[name] = process = Process(name, command, self.logs / f"{name}.log")
        return process


async def _never() -> bool:
    return False


async def _by_hand() -> None:
    began = time.monotonic()
    async with ControlPlane(Options(scheduler="--scheduler" in sys.argv)) as plane:
        to_stderr(f"ready after {time.monotonic() - began:.1f} s; logs in {plane.logs}; stop it with Ctrl-C")
        sys.stdout.write(f"export KUBECONFIG={plane.kubeconfig}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> int:
    """Run a control plane until interrupted. Return the exit code."""
    try:
        asyncio.run(_by_hand())
    except KeyboardInterrupt:
        return 0
    except (BuildError, ProcessFailed) as error:
        to_stderr(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
