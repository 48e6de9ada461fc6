"""`tasks orphans`: pods with a backend's label that belong to no task of the state file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from pyscheduler.api import ApiError
from pyscheduler.api.counts import counted
from pyscheduler.backend.adoption import is_orphan
from pyscheduler.backend.client import KubernetesClient
from pyscheduler.backend.identity import lease_holder, lease_name
from pyscheduler.backend.pods import PodState
from pyscheduler.backend.state.identity import StateIdentity
from pyscheduler.backend.state.request_queue import Adopt, RequestQueue
from pyscheduler.backend.state.sqlite_lock import place_of
from pyscheduler.backend.template import selector
from pyscheduler.cli import options
from pyscheduler.cli.problems import CommandProblem
from pyscheduler.cli.sections import FullHelpGroup
from pyscheduler.cli.task_client import connected
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
            raise CommandProblem(f"{state} is the state of another backend: the flags have {different}")

    def client(self) -> AbstractAsyncContextManager[KubernetesClient]:
        return connected(self.namespace, self._kubeconfig, self._context)

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

    def rejected_adoptions(self) -> dict[str, str]:
        """Return the reasons why requests to adopt pods were rejected, by name of the pod."""
        if not self.state.exists():
            return {}
        with RequestQueue(self.state) as queue:
            rejected = [(queued.request, queued.rejection) for queued in queue.rejected()]
        return {request.pod: why for request, why in rejected if isinstance(request, Adopt)}

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

    async def unused_seconds(self, client: KubernetesClient) -> float:
        """Return the seconds since a process has renewed or released the backend's Lease; infinite if there is none."""
        renewed = (await self._lease(client)).get("renewTime") or ""
        return time.time() - _timestamp(renewed) if renewed else math.inf

    async def _check_lease(self, client: KubernetesClient) -> None:
        """Raise CommandProblem if the Lease shows that a process runs the backend with another state file."""
        lease = await self._lease(client)
        held_by, renewed = lease.get("holderIdentity") or "", lease.get("renewTime") or ""
        own = lease_holder(self.identity, place_of(self.state)) if self.identity else ""
        if held_by in ("", own) or not renewed:
            return
        if time.time() - _timestamp(renewed) < (lease.get("leaseDurationSeconds") or 0):
            raise CommandProblem(
                f"backend {self.name!r} runs in namespace {self.namespace} with another state than {self.state}, "
                "and its pods are no orphans: pass its --state"
            )

    async def _lease(self, client: KubernetesClient) -> dict[str, Any]:
        """Return the spec of the backend's Lease, empty if it does not exist."""
        try:
            return (await client.get_object(LEASES, lease_name(self.name))).get("spec") or {}
        except ApiError as problem:
            if problem.status != _MISSING:
                raise
            return {}


def _timestamp(text: str) -> float:
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()


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
        options.task_state,
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
        rejected = backend.rejected_adoptions()
        for pod in found.values():
            kept = "" if pod.has_finalizer else "  released"
            why = f"  not adopted: {rejected[pod.name]}" if pod.name in rejected else ""
            print(f"{pod.name}  task {pod.task!r}  {pod.phase}  {pod.node or 'no node'}{kept}{why}")
        print(f"{counted(len(found), 'orphan')} in namespace {backend.namespace}")
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
            queue.withdraw([pod.task for pod in chosen])
            queue.put(Adopt(pod.task, pod.name, pod.submission) for pod in chosen)
            idle = "" if queue.holder() else f"; not running, start it with `pyscheduler tasks run --state {state}`"
        print(f"{len(chosen)} to be adopted{idle}")
        return 0

    options.run_async(work())


@orphans.command
@_common
@click.option("--all", "everything", is_flag=True, help="Release all orphans.")
@click.option("--delete", is_flag=True, help="Delete the pods too.")
@click.option(
    "--unused-for",
    type=options.SECONDS,
    metavar="S",
    help="Do nothing unless no process has run the backend for S seconds.",
)
@click.argument("pods", nargs=-1)
def release(
    state: Path,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    name: str,
    everything: bool,
    delete: bool,
    unused_for: float | None,
    pods: tuple[str, ...],
) -> None:
    """Remove the finalizer of orphans, so that they can be deleted, also with their namespace.

    With --unused-for a CronJob may run it: it limits how long pods outlive a backend that is gone.
    """
    if not pods and not everything:
        raise click.UsageError("name the pods: POD..., or --all")
    backend = _Backend(state, kubeconfig, context, namespace, name)

    async def work() -> int:
        async with backend.client() as client:
            unused = await backend.unused_seconds(client) if unused_for is not None else math.inf
            if unused < (unused_for or 0.0):
                print(f"0 released: backend {backend.name!r} was in use {unused:.0f} s ago")
                return 0
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
