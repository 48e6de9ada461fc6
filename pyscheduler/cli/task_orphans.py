"""`tasks orphans`: pods with a backend's label that belong to no task of the state file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from pyscheduler.api import ApiError
from pyscheduler.backend.adoption import is_orphan
from pyscheduler.backend.client import KubernetesClient
from pyscheduler.backend.identity import lease_name
from pyscheduler.backend.pods import PodState
from pyscheduler.backend.state.identity import StateIdentity
from pyscheduler.backend.state.request_queue import Adopt, RequestQueue
from pyscheduler.backend.template import selector
from pyscheduler.cli import options
from pyscheduler.cli.problems import CommandProblem
from pyscheduler.cli.sections import FullHelpGroup
from pyscheduler.kube.paths import LEASES

_GONE: Final = (404, 409)
_MISSING: Final = 404


@click.group(cls=FullHelpGroup, context_settings={"show_default": True})
def orphans() -> None:
    """List, adopt or release pods that belong to no task of the state file.

    Pods become orphans if the state is lost. The backend never changes them, and their finalizer keeps them, and their
    namespace, from being deleted.

    \b
      pyscheduler tasks orphans list
      pyscheduler tasks orphans adopt nightly-7-0a1b2c3d4e-1
      pyscheduler tasks orphans release --all --delete

    If a backend is gone for good, name a state file that does not exist: then all its pods are orphans.
    """


class _Backend:
    """Backend whose orphans are meant: namespace and name are those of the state, unless given."""

    def __init__(self, state: Path, kubeconfig: Path | None, context: str, namespace: str, name: str) -> None:
        self.state, self._kubeconfig, self._context = state, kubeconfig, context
        self.identity = self._read_identity()
        self.namespace = namespace or (self.identity.namespace if self.identity else "default")
        self.name = name or (self.identity.backend if self.identity else "tasks")
        given = StateIdentity(namespace=self.namespace, backend=self.name)
        different = given.difference(self.identity) if self.identity else ""
        if different:
            raise CommandProblem(f"{state} is the state of another backend: you gave {different}")

    def client(self) -> KubernetesClient:
        return KubernetesClient(self.namespace, kubeconfig=self._kubeconfig, context=self._context)

    async def orphans(self, client: KubernetesClient) -> dict[str, PodState]:
        """Return the orphans by name. CommandProblem in another cluster, or if a backend with another state runs."""
        await self._check_cluster(client)
        await self._check_lease(client)
        pods = (await client.list_pods(selector(self.name))).pods
        records = {}
        if self.state.exists():
            with RequestQueue(self.state) as queue:
                records = {record.id: record for record in queue.records({pod.task for pod in pods.values()})}
        return {name: pod for name, pod in pods.items() if is_orphan(pod, records.get(pod.task), self.name)}

    def _read_identity(self) -> StateIdentity | None:
        if not self.state.exists():
            return None
        with RequestQueue(self.state) as queue:
            return queue.identity()

    async def _check_cluster(self, client: KubernetesClient) -> None:
        """Raise CommandProblem if the state belongs to another cluster, whose pods have tasks in another state."""
        if self.identity is None:
            return
        here = StateIdentity(
            namespace=self.namespace,
            backend=self.name,
            cluster_uid=await client.namespace_uid("kube-system"),
            namespace_uid=await client.namespace_uid(self.namespace),
        )
        different = here.difference(self.identity)
        if different:
            raise CommandProblem(f"{self.state} is the state of another backend: this is {different}")

    async def _check_lease(self, client: KubernetesClient) -> None:
        """Raise CommandProblem if the Lease shows that a process runs the backend with another state file."""
        try:
            lease = (await client.get_object(LEASES, lease_name(self.name))).get("spec") or {}
        except ApiError as problem:
            if problem.status != _MISSING:
                raise
            return
        held_by, renewed = lease.get("holderIdentity") or "", lease.get("renewTime") or ""
        if not held_by or held_by == (self.identity.state if self.identity else "") or not renewed:
            return
        age = time.time() - datetime.fromisoformat(renewed).astimezone(UTC).timestamp()
        if age < (lease.get("leaseDurationSeconds") or 0):
            raise CommandProblem(
                f"backend {self.name!r} runs in namespace {self.namespace} with another state than {self.state}, "
                "and its pods are no orphans: pass its --state"
            )


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    kubeconfig = "Kubeconfig (default: $KUBECONFIG, in-cluster credentials)."
    for add in (
        click.option(
            "--name",
            default="",
            show_default=False,
            metavar="NAME",
            help="Name of the backend (default: that of the state).",
        ),
        click.option(
            "--namespace",
            "-n",
            default="",
            show_default=False,
            metavar="NS",
            help="Namespace (default: that of the state).",
        ),
        click.option("--context", default="", show_default=False, metavar="C", help="Context of the kubeconfig."),
        click.option("--kubeconfig", type=options.FILE, metavar="FILE", help=kubeconfig),
        click.option("--state", type=options.FILE, default="tasks.db", metavar="FILE", help="State file."),
    ):
        command = add(command)
    return command


@orphans.command(name="list")
@_common
def list_(state: Path, kubeconfig: Path | None, context: str, namespace: str, name: str) -> None:
    """List the orphans: pod, task, phase and node."""
    backend = _Backend(state, kubeconfig, context, namespace, name)

    async def work() -> int:
        async with backend.client() as client:
            found = await backend.orphans(client)
        for pod in found.values():
            kept = "" if pod.has_finalizer else "  released"
            print(f"{pod.name}  task {pod.task!r}  {pod.phase}  {pod.node or 'no node'}{kept}")
        print(f"{len(found)} orphans in namespace {backend.namespace}")
        return 0

    options.run_async(work())


@orphans.command
@_common
@click.argument("pods", nargs=-1, required=True)
def adopt(state: Path, kubeconfig: Path | None, context: str, namespace: str, name: str, pods: tuple[str, ...]) -> None:
    """Make orphans tasks again; the process that runs the state file watches them and reports their end."""
    backend = _Backend(state, kubeconfig, context, namespace, name)

    async def work() -> int:
        async with backend.client() as client:
            chosen = _choose(await backend.orphans(client), pods)
        with RequestQueue(state, create=True) as queue:
            queue.put(Adopt(pod.task, pod.name) for pod in chosen)
            idle = "" if queue.holder() else f"; not running, start it with `pyscheduler tasks run --state {state}`"
        print(f"{len(chosen)} to be adopted{idle}")
        return 0

    options.run_async(work())


@orphans.command
@_common
@click.option("--all", "everything", is_flag=True, help="Release all orphans.")
@click.option("--delete", is_flag=True, help="Delete the pods too.")
@click.argument("pods", nargs=-1)
def release(
    state: Path,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    name: str,
    everything: bool,
    delete: bool,
    pods: tuple[str, ...],
) -> None:
    """Remove the finalizer of orphans, so that they can be deleted, also with their namespace."""
    if not pods and not everything:
        raise click.UsageError("name the pods: POD..., or --all")
    backend = _Backend(state, kubeconfig, context, namespace, name)

    async def work() -> int:
        async with backend.client() as client:
            found = await backend.orphans(client)
            chosen = list(found.values()) if everything else _choose(found, pods)
            for pod in chosen:
                await _release(client, pod, delete=delete)
        print(f"{len(chosen)} released{' and deleted' if delete else ''}")
        return 0

    options.run_async(work())


async def _release(client: KubernetesClient, pod: PodState, *, delete: bool) -> None:
    try:
        if pod.has_finalizer:
            await client.release_pod(pod.name, pod.uid)
        if delete:
            await client.delete_pod(pod.name, pod.uid)
    except ApiError as problem:
        if problem.status not in _GONE:
            raise


def _choose(found: dict[str, PodState], names: Sequence[str]) -> list[PodState]:
    missing = [name for name in names if name not in found]
    if missing:
        raise CommandProblem(f"there is no orphan {missing[0]!r}; `pyscheduler tasks orphans list` shows all")
    return [found[name] for name in names]
