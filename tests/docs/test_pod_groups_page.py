"""The manifests and messages of docs/pod-groups.md are what the scheduler takes and writes."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from pyscheduler.testing import Harness
from tests.docs.pages import ROOT, blocks, rows, text_of, words_in_code
from tests.unit.embedded.builders import Cluster

PAGE = "docs/pod-groups.md"
CONFIG = (ROOT / "config" / "batch.yaml").read_text(encoding="utf-8")
WITHOUT_QUEUES = re.sub(r"^ *- name: Queues\b.*\n", "", CONFIG, flags=re.M)
EXAMPLES = [block.text for block in blocks(PAGE) if block.language == "yaml" and block.text.startswith("apiVersion:")]
NATIVE, VOLCANO = "scheduling.k8s.io/v1beta1", "scheduling.volcano.sh/v1beta1"
GROUP_NAME = "scheduling.k8s.io/group-name"
RACK = "example.com/rack"
Manifest = dict[str, Any]


def harness(*manifests: Manifest, config: str = CONFIG) -> Harness:
    """Return a harness with the objects, after a scheduler has run for five seconds."""
    cluster = Harness(config)
    for manifest in manifests:
        cluster.apply(manifest)
    cluster.run()
    cluster.advance(5)
    return cluster


def node(name: str, cpu: int, **labels: str) -> Manifest:
    allocatable = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    meta = {"name": name, "labels": {key.replace("rack", RACK): value for key, value in labels.items()}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": allocatable}}


def pod_group(api: str, **spec: Any) -> Manifest:
    return {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": "a"}, "spec": spec}


def gang(minimum: int, **spec: Any) -> Manifest:
    """Return a PodGroup of Kubernetes."""
    return pod_group(NATIVE, schedulingPolicy={"gang": {"minCount": minimum}}, **spec)


def pods(
    count: int, cpu: int = 1, native: bool = True, annotations: Mapping[str, str] = MappingProxyType({})
) -> list[Manifest]:
    """Return members of the group `a`."""
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": str(cpu)}}}
    spec = {"containers": [container], **({"schedulingGroup": {"podGroupName": "a"}} if native else {})}
    names = {} if native else {GROUP_NAME: "a"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"a{i}", "annotations": {**names, **annotations}},
            "spec": spec,
        }
        for i in range(count)
    ]


def queue(spec: Manifest, state: str = "Open") -> Manifest:
    return {
        "apiVersion": VOLCANO,
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": spec,
        "status": {"state": state},
    }


def pods_of(job: Manifest) -> list[Manifest]:
    """Return the pods that the Job controller creates."""
    template = job["spec"]["template"]
    meta = template.get("metadata", {})
    return [
        {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**meta, "name": f"training-{i}"}}
        for i in range(job["spec"]["parallelism"])
    ]


# -- declarations ------------------------------------------------------------------------------------------------------


def declarations() -> list[str]:
    """Return the examples, and that of Kubernetes in each version of the table."""
    versions = [word for row in rows(PAGE, "Declare a group") for word in words_in_code(row[0])]
    others = [EXAMPLES[0].replace(NATIVE, version) for version in versions if version.startswith("scheduling.k8s.io/")]
    return [*others, *EXAMPLES[1:]]


def api_of(example: str) -> str:
    """Return the API of the first object of an example."""
    return example.partition("\n")[0].removeprefix("apiVersion: ")


@pytest.mark.parametrize("example", declarations(), ids=api_of)
def test_pods_of_an_example_start_together(example: str) -> None:
    *groups, job = yaml.safe_load_all(example)
    assert harness(node("n", 3), *groups, *pods_of(job)).bindings == {}
    assert len(harness(node("n", 4), *groups, *pods_of(job)).bindings) == 4


def test_table_and_examples_have_each_api() -> None:
    versions = [word for row in rows(PAGE, "Declare a group") for word in words_in_code(row[0])]
    assert len(versions) == 5
    assert len(declarations()) == 6
    shown = [each["apiVersion"] for text in EXAMPLES for each in yaml.safe_load_all(text) if each["kind"] == "PodGroup"]
    assert set(shown) <= set(versions)


ZONE, GROUP_KEY = "topology.kubernetes.io/zone", "leaderworkerset.sigs.k8s.io/group-key"


def zones_of_two_groups(template: Manifest) -> list[set[str]]:
    """Return the zones of two groups with the labels of a LeaderWorkerSet, each of which fits into each zone twice."""
    server, manifests = Cluster(), [node(f"n-{zone}", 4, **{ZONE: zone}) for zone in ("a", "b")]
    for group in ("one", "two"):
        annotations = {**template["metadata"]["annotations"], "pyscheduler.io/pod-group": group}
        annotations["pyscheduler.io/pod-group-min-count"] = "2"
        for each in pods(2, native=False, annotations=annotations):
            meta = {**each["metadata"], "name": f"{group}-{each['metadata']['name']}", "labels": {GROUP_KEY: group}}
            del meta["annotations"][GROUP_NAME]
            spec = copy.deepcopy({**each["spec"], **template["spec"], "schedulerName": "pyscheduler"})
            manifests.append(server.create("pods", {**each, "metadata": meta, "spec": spec}))
    bindings = harness(*manifests).bindings
    return [{zone for pod, zone in bindings.items() if f"/{group}-" in pod} for group in ("one", "two")]


def templates() -> list[Manifest]:
    """Return the parts of pod templates on the page."""
    return [yaml.safe_load(block.text) for block in blocks(PAGE) if block.text.startswith("metadata:")]


def test_each_job_of_a_job_set_is_a_group() -> None:
    annotations = templates()[0]["metadata"]["annotations"]
    members = pods(6, native=False, annotations=annotations)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
    for index, each in enumerate(members):
        del each["metadata"]["annotations"][GROUP_NAME]
        job = f"js-workers-{index // 2}"
        labels = {"jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/jobset-uid": "1"}
        each["metadata"]["labels"] = {**labels, "batch.kubernetes.io/job-name": job}
        each["metadata"]["ownerReferences"] = [{**owner, "name": job, "uid": job}]
    assert len(harness(node("n1", 5), *members).bindings) == 4


def test_each_group_has_a_domain_of_its_own() -> None:
    [_, template] = templates()
    one, two = zones_of_two_groups(template)
    assert len(one) == len(two) == len(one | two) - 1 == 1
    one, two = zones_of_two_groups({**template, "spec": {}})
    assert one == two


# -- messages ----------------------------------------------------------------------------------------------------------


def too_few_pods() -> Harness:
    return harness(node("n1", 8), gang(8), *pods(5))


def missing_role() -> Harness:
    group = pod_group(VOLCANO, minMember=3, minTaskMember={"worker": 2, "ps": 1})
    return harness(node("n1", 8), group, *pods(3, native=False, annotations={"volcano.sh/task-spec": "worker"}))


def missing_group() -> Harness:
    return harness(node("n1", 8), *pods(3, native=False))


def invalid_field() -> Harness:
    group = pod_group(VOLCANO, minMember=1, subGroupPolicy=[{"name": "workers"}])
    return harness(node("n1", 8), group, *pods(1, native=False))


def two_declarations() -> Harness:
    return harness(node("n1", 8), gang(1), *pods(1, annotations={GROUP_NAME: "b"}))


def no_room() -> Harness:
    return harness(node("n1", 3), node("n2", 2), gang(2), *pods(2, cpu=3), config=WITHOUT_QUEUES)


def no_domain() -> Harness:
    group = gang(3, schedulingConstraints={"topology": [{"key": RACK}]})
    return harness(node("n1", 2, rack="r1"), node("n2", 2, rack="r2"), group, *pods(3))


def no_min_resources() -> Harness:
    return harness(node("n1", 2), pod_group(VOLCANO, minMember=1, minResources={"cpu": "5"}), *pods(1, native=False))


def over_quota() -> Harness:
    group = pod_group(VOLCANO, minMember=3, queue="q")
    return harness(node("n1", 8), queue({"capability": {"cpu": "1"}}), group, *pods(3, native=False))


def closed_queue() -> Harness:
    group = pod_group(VOLCANO, minMember=3, queue="q")
    return harness(node("n1", 8), queue({}, state="Closed"), group, *pods(3, native=False))


STATES: dict[str, Callable[[], Harness]] = {
    "too few pods exist": too_few_pods,
    "a role is missing": missing_role,
    "the PodGroup is missing": missing_group,
    "an invalid field": invalid_field,
    "two declarations": two_declarations,
    "no room": no_room,
    "no domain": no_domain,
    "no `minResources`": no_min_resources,
    "over the quota": over_quota,
    "a closed queue": closed_queue,
}


def test_messages_are_those_of_the_scheduler() -> None:
    documented = {
        state: (reason, message.strip("`")) for state, reason, message in rows(PAGE, "Conditions of the pods")
    }
    written = {state: pending_condition(build()) for state, build in STATES.items()}
    assert written == documented


def pending_condition(cluster: Harness) -> tuple[str, str]:
    """Return reason and message of the pods that are not bound."""
    pending = [cluster.condition("Pod", key, "PodScheduled") for key in cluster.pods if key not in cluster.bindings]
    [found] = {(str(each["reason"]), str(each["message"])) for each in pending if each is not None}
    return found


@pytest.mark.parametrize(
    ("nodes", "cell"), [pytest.param(4, 1, id="scheduled"), pytest.param(3, 2, id="not scheduled")]
)
@pytest.mark.parametrize("example", declarations()[:-1], ids=api_of)
def test_condition_of_a_pod_group_has_the_documented_type(example: str, nodes: int, cell: int) -> None:
    group, job = yaml.safe_load_all(example)
    [row] = [r for r in rows(PAGE, "Condition of the PodGroup") if group["apiVersion"] in words_in_code(r[0])]
    cluster = harness(node("n", nodes), group, *pods_of(job))
    kind = f"PodGroup.{group['apiVersion'].partition('/')[0]}"
    written = cluster.condition(kind, "default/training", words_in_code(row[cell])[0])
    assert written is not None
    assert written["status"] == row[cell].split()[1]
    if cell == 1:
        assert f"`{written['message']}`" in text_of(PAGE)


def test_event_of_a_victim_names_the_group() -> None:
    low = [{**each, "metadata": {"name": f"low{i}"}} for i, each in enumerate(pods(2))]
    for each in low:
        each["spec"] = {"containers": each["spec"]["containers"]}
    cluster = harness(node("n1", 2), *low)
    for each in (gang(2), *pods(2)):
        cluster.apply({**each, "spec": {**each["spec"], "priority": 100}} if each["kind"] == "Pod" else each)
    cluster.run()
    [note] = {note for name in ("low0", "low1") for reason, note in cluster.events(name) if reason == "Preempted"}
    assert f"`{note}`" in text_of(PAGE)


def test_reported_problems_name_tests_that_exist() -> None:
    folders = ("tests/e2e", "tests/scenarios/batch")
    code = "".join(path.read_text(encoding="utf-8") for each in folders for path in (ROOT / each).glob("test_*.py"))
    problems = list(rows(PAGE, "Problems that users of other schedulers report"))
    named = {f"def test_{word}(" for row in problems for word in words_in_code(row[2])}
    assert len(named) > len(problems) > 20
    assert {each for each in named if each not in code} == set()
