"""Applications of operators and Jobs with config/batch.yaml: their objects are unchanged but for schedulerName.

On the real API server, the module has a control plane of its own, with the feature gates of the native PodGroup.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest
import pytest_asyncio

from pyscheduler.embedded.hollow import NodeTemplate
from pyscheduler.embedded.hollow.container_exit import EXITS_ANNOTATION
from pyscheduler.embedded.hollow.pod_lifecycle import FAIL_AFTER_SECONDS, RUN_SECONDS
from tests.e2e.batch import (
    CONFIG,
    COSCHEDULING,
    NATIVE,
    SCHEDULED,
    SCHEDULER,
    UNSCHEDULABLE,
    VOLCANO,
    Namespace,
    batch_plane,
    new_test_namespace,
)
from tests.e2e.client import ApiError, Json
from tests.e2e.jobs import ended
from tests.e2e.operators import (
    COSCHEDULING_GROUP,
    OPERATORS,
    VOLCANO_GROUP,
    Application,
    Operator,
    container,
    owned_by,
)
from tests.e2e.plane import Plane
from tests.e2e.scheduler import scheduler_with
from tests.e2e.workloads import hollow_nodes, job, unscheduled

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def batch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """The cluster of this module, with the custom resources of all operators and one scheduler for all tests."""
    async with (
        batch_plane(request.config) as plane,
        scheduler_with(plane, CONFIG, tmp_path_factory.mktemp("scheduler")),
    ):
        for operator in OPERATORS.values():
            try:
                await plane.api.create(DEFINITIONS, operator.definition())
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
            await plane.api.until(f"/apis/{operator.version}/{operator.plural}", lambda found: "items" in found)
        yield plane


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(batch: Plane) -> AsyncIterator[Namespace]:
    """The test's namespace, emptied and deleted afterwards."""
    async with new_test_namespace(batch) as created:
        yield created


@dataclass(frozen=True)
class Submitted:
    """An application whose custom resource and PodGroup exist."""

    namespace: Namespace
    operator: Operator
    application: Application

    @property
    def names(self) -> set[str]:
        """Names of all pods."""
        return _names((*self.application.pods, *self.application.executors))

    @property
    def outside(self) -> set[str]:
        """Names of the pods that do not belong to the group."""
        return set() if self.application.driver_is_member else _names(self.application.pods)

    async def start(self) -> None:
        """Create the pods that the operator creates."""
        await self.namespace.create_pods(self.application.pods)

    async def start_executors(self) -> None:
        """Create the pods that the driver creates, once it runs."""
        if self.application.executors:
            driver = _name(self.application.pods[0])
            found = await self.namespace.until(lambda items: _phase(items, driver) == "Running")
            references = owned_by({"apiVersion": "v1", "kind": "Pod", **_named(found, driver)})
            owned = [_with_metadata(each, ownerReferences=references) for each in self.application.executors]
            await self.namespace.create_pods(owned)

    async def until_condition(self, expected: tuple[str, str], text: str = "") -> None:
        """Wait until a condition of the PodGroup, given as type and status, has this text in its message."""
        group = _name(self.application.group)
        await self.namespace.until_condition(self.operator.group_version, group, expected, text)


async def submitted(namespace: Namespace, operator: Operator) -> Submitted:
    """Create a custom resource, and the objects that its operator creates before the pods."""
    path = f"/apis/{operator.version}/namespaces/{namespace.name}/{operator.plural}"
    owner = await namespace.api.create(
        path, {"apiVersion": operator.version, "kind": operator.kind, "metadata": {"name": "app"}}
    )
    application = operator.build(owner, operator.group_version)
    await namespace.create(*application.templates, application.group)
    return Submitted(namespace, operator, application)


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _names(items: Sequence[Json]) -> set[str]:
    return {_name(each) for each in items}


def _named(items: list[Json], name: str) -> Json:
    """Return the object with a name, empty if there is none."""
    return next((each for each in items if _name(each) == name), {})


def _phase(items: list[Json], name: str) -> str:
    return str(_named(items, name).get("status", {}).get("phase", ""))


def _with_metadata(item: Json, **fields: object) -> Json:
    return {**item, "metadata": {**item["metadata"], **fields}}


def _messages(items: list[Json]) -> dict[str, str]:
    """Return the messages of the pods that are reported as not scheduled."""
    return {_name(each): unscheduled(each) for each in items if unscheduled(each)}


each_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


@each_operator
async def test_application_waits_for_its_last_node_and_then_starts_whole(
    operator: Operator, namespace: Namespace
) -> None:
    app = await submitted(namespace, operator)
    async with hollow_nodes(namespace.plane, namespace.name, app.application.cpus - 1, cpu="1") as nodes:
        await app.start()
        if app.outside:
            await app.start_executors()
        waiting = _names(app.application.executors if app.outside else app.application.pods)
        found = await namespace.until(lambda items: _messages(items).keys() == waiting)
        assert {_name(each) for each in found if each["spec"].get("nodeName")} == app.outside
        for message in _messages(found).values():
            assert app.application.lacking in message
        await app.until_condition(UNSCHEDULABLE[operator.group_version], app.application.lacking)
        await nodes.add(NodeTemplate(f"{namespace.name}-last", cpu="1"))
        if not app.outside:
            await app.start_executors()
        assert len(set((await namespace.until_bound(app.names)).values())) == len(app.names)
        await app.until_condition(SCHEDULED[operator.group_version])
        await namespace.api.delete(f"/api/v1/nodes/{namespace.name}-last")


@each_operator
async def test_replacement_starts_when_others_of_the_application_have_ended(
    operator: Operator, namespace: Namespace
) -> None:
    """One pod has succeeded, if it can, and one has failed: fewer than the minimum run, and the replacement starts."""
    app = await submitted(namespace, operator)
    ended, failed = sorted(app.names - app.outside - {_name(app.application.pods[0])})[:2]
    async with hollow_nodes(namespace.plane, namespace.name, app.application.cpus, cpu="1"):
        await app.start()
        await app.start_executors()
        await namespace.until_bound(app.names)
        await namespace.until(lambda items: _phase(items, ended) == _phase(items, failed) == "Running")
        if _template(app, ended)["spec"]["restartPolicy"] != "Always":
            await _end(namespace, ended, RUN_SECONDS, "Succeeded")
        if _template(app, failed)["spec"]["restartPolicy"] == "Never":
            await _end(namespace, failed, FAIL_AFTER_SECONDS, "Failed")
        else:  # its kubelet would restart it; it is lost with its node
            await namespace.api.delete(f"{namespace.pods}/{failed}")
            await namespace.until(lambda items: not _named(items, failed))
        await namespace.create(_with_metadata(_template(app, failed), name=f"{failed}-again"))
        await namespace.until(lambda items: _phase(items, f"{failed}-again") == "Running")


async def _end(namespace: Namespace, name: str, annotation: str, phase: str) -> None:
    """End the run of a pod."""
    await namespace.api.patch(f"{namespace.pods}/{name}", {"metadata": {"annotations": {annotation: "0"}}})
    await namespace.until(lambda items: _phase(items, name) == phase)


def _template(app: Submitted, name: str) -> Json:
    return _named([*app.application.pods, *app.application.executors], name)


JOB_GROUPS: dict[str, tuple[str, Json, Json, Json]] = {
    "annotations": (
        "",
        {},
        {"annotations": {"pyscheduler.io/pod-group": "train", "pyscheduler.io/pod-group-min-count": "4"}},
        {},
    ),
    "Volcano": (VOLCANO, {"minMember": 4}, {"annotations": {VOLCANO_GROUP: "train"}}, {}),
    "scheduler-plugins": (COSCHEDULING, {"minMember": 4}, {"labels": {COSCHEDULING_GROUP: "train"}}, {}),
    "native": (
        NATIVE,
        {"schedulingPolicy": {"gang": {"minCount": 4}}},
        {},
        {"schedulingGroup": {"podGroupName": "train"}},
    ),
}
"""API version and spec of the PodGroup of a Job, metadata and fields of its pods."""


@pytest.mark.parametrize(("version", "spec", "metadata", "fields"), JOB_GROUPS.values(), ids=JOB_GROUPS)
async def test_job_with_an_index_that_fails_once_runs_to_completion(
    namespace: Namespace, version: str, spec: Json, metadata: Json, fields: Json
) -> None:
    """Index 4 fails when four of six pods have succeeded: fewer than the minimum of four are left to run."""
    train = job("train", 6, 4, {"schedulerName": SCHEDULER, **fields, "containers": [container()]})
    train["spec"] |= {"completionMode": "Indexed", "backoffLimitPerIndex": 1}
    annotations = {RUN_SECONDS: "1", EXITS_ANNOTATION: "index 4 attempt 0: 1; 0", **metadata.get("annotations", {})}
    train["spec"]["template"]["metadata"] = {**metadata, "annotations": annotations}
    jobs = f"/apis/batch/v1/namespaces/{namespace.name}/jobs"
    async with hollow_nodes(namespace.plane, namespace.name, 4, cpu="1"):
        if version:
            await namespace.create(
                {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "train"}, "spec": spec}
            )
        await namespace.api.create(jobs, train)
        done = await namespace.api.until(f"{jobs}/train", lambda found: "Complete" in ended(found), seconds=120)
        assert (done["status"]["succeeded"], done["status"]["failed"]) == (6, 1)


async def test_controller_that_waits_for_the_phase_creates_its_pods(namespace: Namespace) -> None:
    """Volcano's controller of Jobs and Kubeflow's training operator create pods after the phase Pending only."""
    app = await submitted(namespace, OPERATORS["training operator, Volcano"])
    async with hollow_nodes(namespace.plane, namespace.name, app.application.cpus, cpu="1"):
        path = namespace.path(VOLCANO, "PodGroup", _name(app.application.group))
        await namespace.api.until(path, lambda found: found["status"]["phase"] != "Pending")
        await app.start()
        await namespace.until_bound(app.names)
