"""`pyscheduler simulate`: each invalid scenario is one clear error; tables, JSON and HTML of the results."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Protocol
from xml.etree import ElementTree

import pytest

from pyscheduler.cli.program import run as main
from pyscheduler.data import CONFIGURATIONS

HEAD = "apiVersion: pyscheduler.io/v1\nkind: Scenario\n"
NODES = f"{HEAD}nodePools: [{{name: n, count: 2}}]\n"
CONTAINERS = "containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]"
POD = f"{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{{CONTAINERS}}}}}"
NUMBERED = POD.replace("name: a}", 'name: "a-{i}"}')
DEFAULT, BATCH = CONFIGURATIONS / "default.yaml", CONFIGURATIONS / "batch.yaml"


class Simulate(Protocol):
    """Runs the command with a scenario; returns exit code, stdout and stderr."""

    def __call__(self, text: str, *args: object) -> tuple[int, str, str]: ...


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Simulate:
    monkeypatch.setenv("COLUMNS", "160")

    def run(text: str, *args: object) -> tuple[int, str, str]:
        file = tmp_path / "scenario.yaml"
        file.write_text(text)
        monkeypatch.setattr(sys, "argv", ["pyscheduler", "simulate", str(file), *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return int(ended.value.code or 0), out, err

    return run


def arrival(fields: str, obj: str = POD) -> str:
    return f"{NODES}arrivals: [{{name: x, objects: [{obj}]{fields}}}]"


def workload(api_version: str, kind: str, spec: str) -> str:
    return f"{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: w}}, spec: {{{spec}}}}}"


TEMPLATE = f"template: {{spec: {{{CONTAINERS}}}}}"
PROBLEMS = [
    ("just text", "must be a mapping"),
    ("kind: [", "not valid YAML"),
    (f"{HEAD.replace('Scenario', 'Cluster')}nodePools: [{{name: n}}]", '2: kind: must be Scenario, not "Cluster"'),
    (HEAD, "nodePools: has no nodes, and neither have objects and files"),
    (f"{NODES}arival: []", 'unknown field "arival"; did you mean "arrivals"?'),
    (f"{HEAD}nodePools: [{{name: n, count: many}}]", '3: nodePools[0].count: must be a whole number, not "many"'),
    (f"{NODES}until: -1", "4: until: must be above 0, not -1"),
    (f"{NODES}files: [none.yaml]", "4: files[0]: "),
    (f"{NODES}objects: [{{kind: Pod, metadata: {{name: a}}}}]", "4: objects[0].apiVersion: is required"),
    (f"{NODES}changes: [{{at: 1, node: n-3, action: remove}}]", 'changes[0].node: no node is named "n-3"'),
    (f"{NODES}changes: [{{at: 1, node: n-1, action: stop}}]", "is not one of cordon, uncordon, remove, add"),
    (f"{NODES}changes: [{{at: 1, node: n-1, action: add}}]", "changes[0]: node n-1 was not removed before"),
    (arrival("", POD.replace("name: a}", "name: a, annotations: 5}")), "objects[0].metadata.annotations: must be a"),
    (arrival("", POD.replace("name: a}", "name: a, ownerReferences: [4]}")), "ownerReferences: must be a list of map"),
    (arrival("", workload("batch/v1", "Job", "template: {metadata: {annotations: 5}}")), "spec.template.metadata.ann"),
    (arrival("", workload("scheduling.volcano.sh/v1beta1", "PodGroup", "").replace("{}", "3")), "spec: must be a map"),
    (arrival(", at: -1"), "arrivals[0].at: must not be negative"),
    (arrival(", runSeconds: 0"), "arrivals[0].runSeconds: must be above 0"),
    (arrival(", runSeconds: soon"), "must be a number of seconds or a list [least, most]"),
    (arrival(", runSeconds: [9, 1]"), "the least first, not 9 to 1"),
    (arrival(", every: 5"), "arrivals[0].every: has no effect without count"),
    (arrival(", count: 3"), 'Pod "a" would be created 3 times: add {i}'),
    (f"{NODES}arrivals: [{{name: x}}]", "arrivals[0]: needs objects or file"),
    (f"{NODES}objects: [{POD}]\narrivals: [{{name: x, objects: [{POD}]}}]", "Pod default/a exists already"),
    (arrival("", workload("batch/v1", "Job", TEMPLATE)), "Job w: has no run time: set runSeconds"),
    (arrival(", runSeconds: 1", workload("batch/v1", "Job", "parallelism: -1, " + TEMPLATE)), "spec.parallelism: must"),
    (arrival(", runSeconds: 1", workload("batch/v1", "Job", "parallelism: 1")), "Job w: spec.template: must be"),
    (arrival("", workload("apps/v1", "DaemonSet", TEMPLATE)), "DaemonSet w: has pod templates and cannot be"),
    (arrival("", workload("v1", "Gadget", "size: 1")), "kind 'Gadget' in apiVersion 'v1' is unknown"),
    (arrival("", POD.replace("cpu: 1", "cpu: lots")), "Pod a: 'lots' is not a quantity"),
]


@pytest.mark.parametrize(("text", "message"), PROBLEMS, ids=[message for _, message in PROBLEMS])
def test_invalid_scenario_is_one_line_with_its_place(simulate: Simulate, text: str, message: str) -> None:
    code, out, err = simulate(text)
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert err.startswith("pyscheduler: ")
    assert "scenario.yaml" in err
    assert message in err


def test_wrong_usage_has_exit_code_2(simulate: Simulate) -> None:
    assert simulate(NODES, "-o", "xml")[0] == 2


def test_extenders_cannot_be_simulated(simulate: Simulate, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    config.write_text(f"{head}extenders: [{{urlPrefix: 'http://localhost', filterVerb: f}}]\n")
    code, _, err = simulate(NODES, "--config", config)
    assert (code, "extenders: cannot be simulated" in err) == (1, True)


GANGS = """
objects:
  - {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: a}, spec: {minMember: 5}}
  - {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: b}, spec: {minMember: 5}}
arrivals:
""" + "".join(
    f"""
  - name: {name}{i}
    runSeconds: 60
    objects:
      - apiVersion: v1
        kind: Pod
        metadata: {{name: "{name}{i}", annotations: {{scheduling.k8s.io/group-name: {name}}}}}
        spec: {{{CONTAINERS}}}
"""
    for i in range(5)
    for name in "ab"
)


def test_two_configurations_are_compared_in_columns(simulate: Simulate) -> None:
    code, out, _ = simulate(NODES + GANGS, "--config", DEFAULT, "--config", BATCH)
    rows = {name: cells for line in out.splitlines() for name, *cells in [re.split(r"\s{2,}", line)]}
    assert code == 0
    assert out.split()[:2] == ["default.yaml", "batch.yaml"]
    assert rows["Jobs started"] == ["0 of 2", "2 of 2"]
    assert "Waiting at the end with default.yaml" in out
    assert "Insufficient cpu" in out
    assert "Note with default.yaml: groups hold nodes" in out
    assert rows["Last job ended after"] == ["-", "2m00s"]


def test_every_queue_and_arrival_has_named_figures(simulate: Simulate) -> None:
    queue = "annotations: {pyscheduler.io/pod-group-queue: research}"
    pod = NUMBERED.replace("metadata: {", f"metadata: {{{queue}, ").replace("cpu: 1", "cpu: 4")
    declared = "apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: research}"
    text = arrival(", count: 3, every: 1, runSeconds: 9", pod) + f"\nobjects: [{{{declared}}}]"
    code, out, _ = simulate(text, "--config", BATCH)
    figures = ["Jobs started 3 of 3", "Wait, mean 2s", "Wait, longest 7s", "Share of all cpu time 100%"]
    assert code == 0
    for heading in ("Queue research", "Arrival x"):
        _, _, rest = out.partition(f"\n{heading}")
        assert [" ".join(line.split()) for line in rest.splitlines()[1:5]] == figures, rest


def test_nodes_without_requests_have_no_shares(simulate: Simulate) -> None:
    code, out, _ = simulate(NODES)
    assert (code, "Requested share" in out) == (0, False)


def test_json_has_every_job_and_all_figures(simulate: Simulate) -> None:
    code, out, _ = simulate(NODES + GANGS, "--config", BATCH, "-o", "json")
    (result,) = json.loads(out)["results"]
    assert (code, result["makespan"], result["pods"]["ended"]) == (0, 120, 10)
    times = [(job["name"], job["arrived"], job["started"], job["ended"]) for job in result["jobs"]]
    assert times == [("default/a", 0, 0, 60), ("default/b", 0, 60, 120)]


def test_html_is_complete_and_escapes_names(simulate: Simulate, tmp_path: Path) -> None:
    config = tmp_path / "<b>&.yaml"
    config.write_text(DEFAULT.read_text())
    queue = "<script>alert(1)</script>"
    named = NUMBERED.replace("metadata: {", f'metadata: {{annotations: {{pyscheduler.io/pod-group-queue: "{queue}"}}, ')
    text = arrival(", count: 12, every: 7, runSeconds: [20, 50]", named)
    code, out, _ = simulate(text, "--config", config, "-o", "html")
    assert code == 0
    assert "<b>&.yaml" not in out
    assert queue not in out
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in out
    assert not [word for word in ("http:", "https:", "src=", "href=", "@import", "url(") if word in out]
    parsed = _Elements()
    parsed.feed(out)
    assert parsed.open == []
    for svg in out.split("<svg")[1:]:
        ElementTree.fromstring(f"<svg{svg.partition('</svg>')[0]}</svg>")
    assert parsed.seen >= {"svg", "polyline", "table"}
    assert 'name="viewport"' in out
    assert "prefers-color-scheme: dark" in out


def test_jobs_that_wait_for_one_reason_are_one_line(simulate: Simulate) -> None:
    """The messages of groups name the group, and the member that lacks room."""
    annotations = 'annotations: {pyscheduler.io/pod-group-min-count: "3"}'
    template = f"template: {{metadata: {{{annotations}}}, spec: {{{CONTAINERS.replace('cpu: 1', 'cpu: 3')}}}}}"
    large = workload("batch/v1", "Job", f"parallelism: 3, completions: 3, {template}").replace("w}", '"w-{i}"}')
    code, out, _ = simulate(arrival(", count: 3, runSeconds: 9", large), "--config", BATCH)
    _, _, waiting = out.partition("Waiting at the end\n")
    assert code == 0
    assert waiting.splitlines()[0].startswith("  default/Job/w-1 and 2 others: ")
    assert "a pod lacks" in waiting
    assert "w-2" not in out + waiting


class _Elements(HTMLParser):
    """Elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, _: Any) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_shipped_scenario_shows_what_groups_and_queues_change(simulate: Simulate) -> None:
    text = (CONFIGURATIONS / "scenarios" / "two-teams.yaml").read_text()
    results = json.loads(simulate(text, "--config", DEFAULT, "--config", BATCH, "-o", "json")[1])["results"]
    default, batch = results
    assert [len(each["jobs"]) for each in results] == [128, 128]
    assert default["idleCpuSeconds"] > 3600
    assert batch["idleCpuSeconds"] == 0
    assert batch["waiting"]["mean"] < default["waiting"]["mean"] / 5
