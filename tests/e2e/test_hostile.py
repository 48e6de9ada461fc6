"""Hostile objects on an API server: those it rejects, and no harm to others by those it accepts."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.conformance import ours
from tests.conformance.compare import compare
from tests.conformance.oracle import Oracle
from tests.conformance.test_live import oracle_program
from tests.e2e.client import ApiError, Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import POOL, deployment, hollow_nodes, placed, pod, pod_spec, running
from tests.hostile.amounts import Case, cases
from tests.hostile.objects import PODS, Hostile

__all__ = ["oracle_program"]
pytestmark = pytest.mark.slow

NEIGHBOURS = 60
NO_DEVICES = ("9223372036854776", "1" + "0" * 30)
"""Amounts that the API server rejects as numbers of devices."""
TOLERANT = b'"spec": {"tolerations":[{"operator":"Exists"}],'
MOST_MEMORY = 1 << 30
"""Maximum bytes of memory, with a dozen objects of up to 1.5 MB in the cluster."""


DEEP = "a field manager of 9,900 levels"


def posted(name: str, hostile: Hostile, namespace: str) -> bytes:
    """Return the hostile pod with its own name, for this test's scheduler and nodes."""
    made = hostile.make()
    if isinstance(made, bytes):
        made = made.replace(b'"hostile"', json.dumps(name).encode(), 1).replace(b',"uid":"hostile"', b"")
        made = made.replace(b"default-scheduler", namespace.encode())
        return made.replace(b'"namespace":"default"', b'"namespace":' + json.dumps(namespace).encode())
    manifest: Json = made.manifest
    spec = manifest["spec"]
    if isinstance(spec, dict):
        scheduler_name = spec["schedulerName"].replace("default-scheduler", namespace)
        selector = {} if spec.get("nodeName") else {POOL: namespace}
        spec = {**spec, "schedulerName": scheduler_name, "nodeSelector": selector}
    metadata = {**manifest["metadata"], "namespace": namespace}
    if metadata["name"] == "hostile":
        metadata["name"] = name
    del metadata["uid"]
    return json.dumps({**manifest, "metadata": metadata, "spec": spec}).encode()


@pytest.mark.asyncio(loop_scope="session")
async def test_accepted_hostile_objects_do_not_affect_other_pods(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    taken = {name: hostile for name, hostile in PODS.items() if name != DEEP}  # the hollow kubelets cannot read that
    names = {name: f"hostile-{i}" for i, name in enumerate(taken)}
    async with (
        hollow_nodes(control_plane, namespace, 10),
        scheduler(control_plane, Configured(namespace), tmp_path) as running_scheduler,
    ):
        admitted = set()
        for name, hostile in taken.items():
            try:
                await api.post(pods, posted(names[name], hostile, namespace))
                admitted.add(name)
            except ApiError:
                continue
        if control_plane.real is not None:
            assert admitted == {name for name, hostile in taken.items() if hostile.admitted}
        workload = deployment("web", NEIGHBOURS, pod_spec(namespace, namespace))
        await api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", workload)
        await api.until(pods, lambda found: running(found) == NEIGHBOURS, 180, labelSelector="app=web")
        assert running_scheduler.peak_memory() < MOST_MEMORY
        assert "Traceback" not in running_scheduler.log.read_text()


@pytest.mark.asyncio(loop_scope="session")
async def test_deeply_nested_pod_does_not_block_others(control_plane: Plane, namespace: str, tmp_path: Path) -> None:
    """Any tenant can create one; the watch delivers it first, and the list after the next start."""
    if control_plane.real is None:
        pytest.skip("the embedded API server refuses such objects")
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    node = {"metadata": {"name": namespace, "labels": {POOL: namespace}}, "status": {"allocatable": allocatable}}
    spec = pod_spec(namespace, namespace, tolerations=[{"operator": "Exists"}])
    await api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node})
    try:
        for turn in range(2):
            (tmp_path / str(turn)).mkdir()
            async with scheduler(control_plane, Configured(namespace), tmp_path / str(turn)) as running_scheduler:
                if turn == 0:
                    await api.post(pods, posted("deep", PODS[DEEP], namespace).replace(b'"spec": {', TOLERANT))
                for i in range(10):
                    await api.create(pods, pod(f"p-{turn}-{i}", spec))
                wanted = {"deep", *(f"p-{before}-{i}" for before in range(turn + 1) for i in range(10))}
                await api.until(pods, partial(_all_placed, wanted))
                assert "nested too deep" in running_scheduler.log.read_text()
    finally:
        await api.delete(pods, gracePeriodSeconds=0)
        await api.delete(f"/api/v1/nodes/{namespace}")


def _all_placed(wanted: set[str], found: Json) -> bool:
    return placed(found).keys() == wanted


def test_decisions_on_amounts_equal_kube_schedulers_within_64_bits(oracle_program: Path) -> None:
    """Above that its sums wrap around or become zero (docs/parity.md); ours stay correct."""
    differing, room_where_there_is_none = [], 0
    with Oracle(oracle_program) as oracle:
        for case in cases():
            theirs, answers = oracle.evaluate(case.document), ours.evaluate(case.document)
            if case.is_within:
                differing += [f"{case.name}: {found}" for found in compare(theirs, answers)]
            else:
                room_where_there_is_none += _fits(theirs) and not case.fits
                assert _fits(answers) is case.fits, case.name
    assert differing == []
    assert room_where_there_is_none > 20, "kube-scheduler now adds up correctly: update docs/parity.md"


def _fits(answers: list[Json]) -> bool:
    """Return True if the pod would be placed on the node; a failed attempt places none."""
    (answer,) = answers
    return bool("nodes" in answer and answer["nodes"]["n1"]["feasible"])


@pytest.mark.asyncio(loop_scope="session")
async def test_api_server_accepts_amounts_of_any_size(control_plane: Plane, namespace: str) -> None:
    """So the scheduler receives them; devices must be integers, except where thousandths overflow."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    integer_cases = [case for case in cases() if case.name.endswith((": pod", ": two containers"))]
    refused: dict[str, str] = {}
    for i, case in enumerate(integer_cases):
        try:
            await control_plane.api.post(pods, _requesting(case, f"requests-{i}"))
        except ApiError as problem:
            refused[case.name.partition(":")[0]] = str(problem)
    assert all("must be an integer" in message for message in refused.values())
    assert {*refused} == ({f"{text} of example.com/gpu" for text in NO_DEVICES} if control_plane.real else set())


def _requesting(case: Case, name: str) -> bytes:
    """Return the case's pod, without a scheduler."""
    manifest = case.document["objects"][-1]
    spec = {**manifest["spec"], "schedulerName": "no-scheduler"}
    return json.dumps({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}).encode()
