"""The cluster of an end-to-end test: the embedded one or the real control plane.

`--control-plane=real` builds and starts the real one. Without a Go toolchain tests are skipped; with CI=true
they fail, because skips go unnoticed there.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from pyscheduler.embedded.cluster import ClusterSettings, EmbeddedCluster
from pyscheduler.embedded.workloads import ControllerSettings
from tests.controlplane.arguments import Options
from tests.controlplane.build import CONTROL_PLANE, REQUIRED, BuildError, ToolchainMissing, binaries
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import ProcessFailed
from tests.e2e.client import ApiClient

EMBEDDED, REAL = "embedded", "real"


@dataclass(frozen=True)
class Plane:
    """The cluster under the tests, with an administrator's kubeconfig and client."""

    target: str
    kubeconfig: Path
    api: ApiClient
    real: ControlPlane | None = None
    """The real control plane, for other identities and kube-scheduler; None on the embedded one."""
    embedded: EmbeddedCluster | None = None
    """The embedded cluster; None on the real one."""


def opened(target: str, config: pytest.Config) -> AbstractAsyncContextManager[Plane]:
    """Return the plane named by `target`, as an async context manager."""
    return real(config) if target == REAL else _embedded()


@asynccontextmanager
async def _embedded() -> AsyncIterator[Plane]:
    # Tests wait for retries of Jobs, for which the real controllers take ten seconds, and provision volumes themselves.
    settings = ClusterSettings(controllers=ControllerSettings(job_backoff_seconds=1.0, provision_volumes=False))
    async with EmbeddedCluster(nodes=0, settings=settings) as cluster, ApiClient(cluster.kubeconfig) as api:
        yield Plane(EMBEDDED, cluster.kubeconfig, api, embedded=cluster)


@asynccontextmanager
async def real(config: pytest.Config, options: Options | None = None) -> AsyncIterator[Plane]:
    """Run a real control plane, built first if needed."""
    build_in_view(config, options.release if options else "")
    plane = ControlPlane(options)
    try:
        await plane.__aenter__()
    except (BuildError, ProcessFailed) as error:
        _fail(error)
    try:
        yield Plane(REAL, plane.kubeconfig, plane.api, plane)
    finally:
        await plane.__aexit__()


async def new_namespace(api: ApiClient, name: str) -> None:
    """Create a namespace and wait for its service account, before which the API server rejects pods."""
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    await api.until(f"/api/v1/namespaces/{name}/serviceaccounts/default", bool)


def build_in_view(config: pytest.Config, release: str = "") -> None:
    """Build missing binaries; this takes minutes, so progress is shown outside pytest's capture."""
    capture = config.pluginmanager.getplugin("capturemanager")
    names = REQUIRED if release else CONTROL_PLANE
    try:
        if capture is None:
            binaries(names, release=release)
        else:
            with capture.global_and_fixture_disabled():
                binaries(names, release=release)
    except ToolchainMissing as error:
        if os.environ.get("CI", "").lower() in {"true", "1"}:
            _fail(error)
        pytest.skip(str(error))
    except BuildError as error:
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    """Fail the fixture with the error's one line, without a traceback."""
    pytest.fail(str(error), pytrace=False)
