"""`pyscheduler evaluate`: results of documents, and errors of invalid ones."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.cli.evaluate import Evaluator
from pyscheduler.cli.program import run as main
from pyscheduler.config.load import loads
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ONLY_N1 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
Document = dict[str, Any]


def document(*objects: NodeBuilder | PodBuilder | Document, **more: Any) -> Document:
    manifests = [o if isinstance(o, dict) else o.manifest for o in objects]
    return {"id": 7, "objects": manifests} | more


def results(*objects: NodeBuilder | PodBuilder | Document, **more: Any) -> list[Document]:
    """Return the results of a document."""
    return list(Evaluator().line(json.dumps(document(*objects, **more))))


def result_of(*objects: NodeBuilder | PodBuilder | Document, **more: Any) -> Document:
    (only,) = results(*objects, **more)
    return only


def profile(**fields: Any) -> Document:
    return {**HEAD, "profiles": [{"schedulerName": "default-scheduler", **fields}]}


def only_scores(*plugins: Document) -> Document:
    return profile(plugins={"score": {"disabled": [{"name": "*"}], "enabled": list(plugins)}})


# -- the result for a pod -------------------------------------------------------------------------------------------


def test_result_of_a_feasible_pod_has_all_nodes_and_scores() -> None:
    tainted = node("n3").taint("gpu", effect="NoSchedule")
    config = only_scores({"name": "TaintToleration", "weight": 3}, {"name": "NodeAffinity"})
    preferred = node("n2").taint("slow", effect="PreferNoSchedule")
    assert result_of(node("n1"), preferred, tainted, pod("a"), config=config) == {
        "id": 7,
        "pod": "default/a",
        "prefilter": {"status": "Success", "plugin": "", "reasons": [], "nodeNames": None},
        "nodes": {
            "n1": {"feasible": True, "plugin": "", "code": "Success", "reasons": []},
            "n2": {"feasible": True, "plugin": "", "code": "Success", "reasons": []},
            "n3": {
                "feasible": False,
                "plugin": "TaintToleration",
                "code": "UnschedulableAndUnresolvable",
                "reasons": ["node(s) had untolerated taint(s)"],
            },
        },
        "scores": {"TaintToleration": {"n1": 300, "n2": 0}},  # NodeAffinity has skipped the pod
        "weights": {"TaintToleration": 3, "NodeAffinity": 1},
        "total": {"n1": 300, "n2": 0},
        "choice": ["n1"],
    }


def test_result_of_an_unschedulable_pod_has_reasons_and_preemption() -> None:
    filtered = "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) were unschedulable."
    not_helpful = "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    preemption = f"preemption: {not_helpful}"
    result = result_of(
        node("n1", cpu="1", memory="1Gi"), node("n2").unschedulable(), pod("a").requests(cpu="2", memory="2Gi")
    )
    assert result["nodes"]["n1"]["reasons"] == ["Insufficient cpu", "Insufficient memory"]
    assert (result["filter_message"], result["fit_error_message"]) == (filtered, f"{filtered} {preemption}")
    assert result["preemption"] == {
        "status": "Unschedulable",
        "message": preemption,
        "nominatedNode": "",
        "victims": [],
        "ties": [],
        "candidates": {},
    }
    assert not {"scores", "total", "choice", "error"} & result.keys()


def test_result_has_all_preemption_candidates() -> None:
    running = [pod(f"old{n}").requests(cpu="3").on(f"n{n}") for n in (1, 2)]
    result = result_of(node("n1"), node("n2"), *running, pod("new").priority(9).requests(cpu="4"))
    assert result["preemption"]["status"] == "Success"
    assert result["preemption"]["ties"] == ["n1", "n2"]
    chosen = result["preemption"]["nominatedNode"]
    assert result["preemption"]["victims"] == [f"default/old{chosen[-1]}"]
    assert result["preemption"]["candidates"] == {
        "n1": {"victims": ["default/old1"], "pdbViolations": 0},
        "n2": {"victims": ["default/old2"], "pdbViolations": 0},
    }
    placement = f"preemption: found a potential placement for pod on node {chosen}, preempting 1 victims"
    assert result["filter_message"] == "0/2 nodes are available: 2 Insufficient cpu."
    assert result["fit_error_message"] == f"{result['filter_message']} {placement}"


def test_gated_pod_is_evaluated_by_preenqueue_only() -> None:
    gated = {
        "status": "UnschedulableAndUnresolvable",
        "plugin": "SchedulingGates",
        "reasons": ["waiting for scheduling gates: [wait]"],
    }
    assert result_of(node("n1"), pod("a").gate("wait")) == {"id": 7, "pod": "default/a", "preenqueue": gated}


def test_nodes_excluded_by_prefilter_name_its_plugin() -> None:
    result = result_of(node("n1", cpu="1"), node("n2"), pod("a").requests(cpu="2").node_affinity(ONLY_N1))
    assert result["prefilter"]["nodeNames"] == ["n1"]
    assert result["nodes"]["n1"]["plugin"] == "NodeResourcesFit"
    message = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert result["nodes"]["n2"] == {
        "feasible": False,
        "plugin": "",
        "code": "UnschedulableAndUnresolvable",
        "reasons": [message],
    }
    assert result["filter_message"] == f"0/2 nodes are available: 1 Insufficient cpu, 1 {message}."


def test_nominated_node_excluded_by_prefilter_has_the_filter_plugins_reason() -> None:
    result = result_of(node("n1"), node("n2"), pod("a").requests(cpu="9").node_affinity(ONLY_N1).nominated("n2"))
    own = "node(s) didn't match Pod's node affinity/selector"
    assert result["nodes"]["n2"] == {
        "feasible": False,
        "plugin": "NodeAffinity",
        "code": "UnschedulableAndUnresolvable",
        "reasons": [own],
    }
    assert result["filter_message"] == f"0/2 nodes are available: 1 Insufficient cpu, 1 {own}."


def test_nodes_excluded_by_prefilter_also_name_the_plugin_that_rejected_the_nominated_node() -> None:
    nodes = (node("n1", cpu="1"), node("n2"), node("n3", cpu="1").taint("x"))
    affinity_off = profile(plugins={"filter": {"disabled": [{"name": "NodeAffinity"}]}})
    nominated = pod("a").requests(cpu="2").node_affinity(ONLY_N1).nominated("n3")
    result = result_of(*nodes, nominated, config=affinity_off)
    message = "node(s) didn't satisfy plugin(s) [NodeAffinity TaintToleration]"
    assert result["nodes"]["n2"]["reasons"] == [message]
    assert result["nodes"]["n3"]["reasons"] == ["node(s) had untolerated taint(s)"]
    counted = f"1 Insufficient cpu, 1 {message}, 1 node(s) had untolerated taint(s)"
    assert result["filter_message"] == f"0/3 nodes are available: {counted}."


@pytest.mark.parametrize(
    ("nominated", "error"),
    [
        pytest.param("n2", "", id="excluded by PreFilter"),
        pytest.param("n1", 'running "FailsOn" filter plugin: no answer for n1', id="not excluded"),
    ],
)
def test_filter_error_on_the_nominated_node_fails_the_pod_unless_prefilter_excludes_the_node(
    nominated: str, error: str
) -> None:
    enabled = [{"name": "tests.scenarios.fakes:FailsOn"}]
    config = profile(
        plugins={"multiPoint": {"enabled": enabled}, "filter": {"disabled": [{"name": "NodeAffinity"}]}},
        pluginConfig=[{"name": "FailsOn", "args": {"node": nominated}}],
    )
    result = result_of(node("n1"), node("n2"), pod("a").node_affinity(ONLY_N1).nominated(nominated), config=config)
    assert result.get("error", "") == error
    if not error:
        assert result["choice"] == ["n1"]
        assert result["nodes"]["n2"]["plugin"] == ""


def test_prefilter_rejection_is_the_result_of_every_node() -> None:
    nowhere = {"matchFields": [*ONLY_N1["matchFields"], {"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    result = result_of(node("n1"), node("n2"), pod("a").node_affinity(nowhere))
    rejection = {"plugin": "NodeAffinity", "reasons": ["pod affinity terms conflict"]}
    assert result["prefilter"] == {"status": "UnschedulableAndUnresolvable", **rejection, "nodeNames": None}
    node_result = {"feasible": False, "code": "UnschedulableAndUnresolvable", **rejection}
    assert result["nodes"] == {"n1": node_result, "n2": node_result}
    assert result["filter_message"] == "0/2 nodes are available: pod affinity terms conflict."


def test_single_feasible_node_is_scored() -> None:
    result = result_of(node("n1"), pod("a"), config=only_scores({"name": "TaintToleration", "weight": 3}))
    assert (result["total"], result["choice"]) == ({"n1": 300}, ["n1"])


def test_every_node_scores_1_without_score_plugins() -> None:
    result = result_of(node("n1"), node("n2"), pod("a"), config=only_scores())
    assert (result["scores"], result["weights"]) == ({}, {})
    assert (result["total"], result["choice"]) == ({"n1": 1, "n2": 1}, ["n1", "n2"])


def test_all_nodes_are_evaluated_despite_percentage_of_nodes_to_score() -> None:
    nodes = [node(f"n{i}") for i in range(120)]
    result = result_of(*nodes, pod("a"), config={**HEAD, "percentageOfNodesToScore": 1})
    assert len(result["total"]) == 120


@pytest.mark.parametrize(("cpu", "choice"), [("4", ["n1"]), ("1", ["n2"])])
def test_nominated_node_is_chosen_if_it_is_feasible(cpu: str, choice: list[str]) -> None:
    untainted, worse = node("n2"), node("n1", cpu=cpu).taint("slow", effect="PreferNoSchedule")
    result = result_of(worse, untainted, pod("a").requests(cpu="2").nominated("n1"), config=profile())
    assert result["choice"] == choice


def test_nominated_node_is_chosen_although_prefilter_excludes_it() -> None:
    """It is feasible only because the Filter of NodeAffinity is disabled."""
    config = profile(plugins={"filter": {"disabled": [{"name": "NodeAffinity"}]}})
    result = result_of(node("n1"), node("n2"), pod("a").node_affinity(ONLY_N1).nominated("n2"), config=config)
    assert (result["choice"], list(result["total"])) == (["n2"], ["n1"])
    assert result["nodes"]["n2"]["plugin"] == ""


def test_each_pod_is_evaluated_alone_with_assigned_and_nominated_pods() -> None:
    running, nominated = pod("c").requests(cpu="2").on("n2"), pod("d").priority(5).requests(cpu="2").nominated("n1")
    pending = (pod("a").requests(cpu="3"), pod("b").requests(cpu="3"))
    first, second = results(node("n1"), node("n2"), *pending, running, nominated, pods=["default/a", "default/b"])
    assert first["nodes"] == second["nodes"]
    assert {name: result["reasons"] for name, result in first["nodes"].items()} == {
        "n1": ["Insufficient cpu"],
        "n2": ["Insufficient cpu"],
    }


def test_reasons_of_a_node_include_its_nominated_pods() -> None:
    nominated, small = pod("b").requests(memory="1Gi").nominated("n1"), node("n1", cpu="1", memory="1Gi")
    result = result_of(small, node("n2"), nominated, pod("a").requests(cpu="2", memory="1Mi"), pods=["default/a"])
    assert result["nodes"]["n1"]["reasons"] == ["Insufficient cpu", "Insufficient memory"]
    assert result["choice"] == ["n2"]


def test_result_without_nodes() -> None:
    text = "no nodes available to schedule pods"
    assert result_of(pod("a")) == {"id": 7, "pod": "default/a", "filter_message": text, "fit_error_message": text}


def test_pod_of_another_scheduler_is_an_error() -> None:
    profiles = 'the profiles of the configuration are "default-scheduler", "pyscheduler": set others with --config'
    error = result_of(node("n1"), pod("a").scheduler("x"))["error"]
    assert error == f'profile not found for scheduler name "x"; {profiles}'


@pytest.mark.parametrize("name", ["default-scheduler", "pyscheduler"])
def test_default_profile_serves_the_scheduler_names_of_up(name: str) -> None:
    assert result_of(node("n1"), pod("a").scheduler(name))["choice"] == ["n1"]


BROKEN = [
    ("pre_filter", 'running PreFilter plugin "Brittle": RuntimeError: broke', {"prefilter"}),
    ("filter", 'running "Brittle" filter plugin: RuntimeError: broke', {"prefilter"}),
    ("pre_score", 'running PreScore plugin "Brittle": RuntimeError: broke', {"prefilter", "nodes"}),
    ("score", 'running Score plugins: plugin "Brittle" failed with: RuntimeError: broke', {"prefilter", "nodes"}),
    (
        "normalize",
        'running Normalize on Score plugins: plugin "Brittle" failed with: RuntimeError: broke',
        {"prefilter", "nodes"},
    ),
]


@pytest.mark.parametrize(("point", "error", "keys"), BROKEN)
def test_plugin_that_raises_fails_only_its_pod(point: str, error: str, keys: set[str]) -> None:
    config = profile(plugins={"multiPoint": {"enabled": [{"name": "tests.unit.cli.brittle:Brittle"}]}})
    bad, good = results(node("n1"), pod("bad").label("break", point), pod("good"), config=config)
    assert (bad["error"], bad.keys() & {"prefilter", "nodes"}) == (error, keys)
    assert (bad["prefilter"]["status"] == "Error") == (point == "pre_filter")
    assert good["choice"] == ["n1"]


# -- input ---------------------------------------------------------------------------------------------------------


def test_other_kinds_reach_the_plugins_that_watch_them_and_unknown_kinds_are_ignored() -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"}}
    unknown_kind = {"apiVersion": "example.com/v1", "kind": "Whatever"}
    mounting = pod("a").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    with_claim = result_of(node("n1"), claim, unknown_kind, mounting)
    without_claim = result_of(node("n1"), unknown_kind, mounting)
    assert without_claim["prefilter"]["reasons"] == ['persistentvolumeclaim "c" not found']
    assert with_claim["prefilter"] != without_claim["prefilter"]


def test_items_of_a_list_are_objects() -> None:
    items = [node("n1").manifest, pod("a").manifest]
    assert result_of({"apiVersion": "v1", "kind": "List", "items": items})["choice"] == ["n1"]


def test_pods_are_defaulted_as_by_the_api_server() -> None:
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
    assert result_of(node("n1"), bare)["pod"] == "default/a"


def test_pods_without_a_node_are_evaluated_in_order_or_those_in_pods() -> None:
    objects = (pod("c"), pod("a"), pod("b").on("n1"), node("n1"))
    assert [result["pod"] for result in results(*objects)] == ["default/c", "default/a"]
    (named, missing) = results(*objects, pods=["default/b", "default/x"])
    assert named["pod"] == "default/b"
    assert missing == {"id": 7, "pod": "default/x", "error": "there is no such pod among the objects"}


MALFORMED = [
    ([1], "objects[0]: an object must be a mapping"),
    ([{}], "objects[0]: an object must be a mapping with apiVersion and kind"),
    ([{**pod("a").manifest, "apiVersion": ""}], "objects[0] (Pod default/a): an object must be a mapping with"),
    ([{"apiVersion": "v1", "metadata": {"name": "n"}}], "objects[0] (n): an object must be a mapping with"),
    ([{"apiVersion": ["v1"], "kind": "Pod"}], "objects[0] (Pod): an object must be a mapping with"),
    ([{"apiVersion": "v1", "kind": "List", "items": [1]}], "objects[0].items[0]: an object must be a mapping"),
    ([{"apiVersion": "v1", "kind": "List", "items": {}}], "objects[0] (List): items: must be a list"),
    ([{"apiVersion": "v1", "kind": "PodList", "items": []}], "objects[0] (PodList): a list among the objects must be"),
    (
        [{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": []}]}],
        "objects[0].items[0] (List): a list among the objects must be of kind List, in no other List",
    ),
    ([{"apiVersion": "v1", "kind": "Node"}], "objects[0] (Node): Object missing required field `metadata`"),
    (
        [node("n").manifest, {**pod("a").manifest, "spec": {}}],
        "objects[1] (Pod default/a): Object missing required field `containers` - at `$.spec`",
    ),
    ([pod("a").priority(10**30).manifest], "objects[0] (Pod default/a): can't serialize ints"),
    ([pod("a").requests(cpu="lots").manifest], "objects[0] (Pod default/a): 'lots' is not a quantity"),
    ([node("n", cpu="lots").manifest], "objects[0] (Node n): 'lots' is not a quantity"),
    ([{"apiVersion": "v1", "kind": "Pod", "metadata": 3}], "objects[0] (Pod): "),
    (
        [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {}}],
        "objects[0] (PersistentVolumeClaim): it has no metadata.name",
    ),
]


@pytest.mark.parametrize(("objects", "error"), MALFORMED)
def test_error_names_the_malformed_object(objects: list[Any], error: str) -> None:
    (result,) = Evaluator().line(json.dumps({"id": [1], "objects": objects}))
    assert result.keys() == {"id", "error"}
    assert result["id"] == [1]
    assert result["error"].startswith(error)


INVALID_LINES = [
    ("{", None, "the line is not valid JSON: "),
    ("[]", None, "a document must be a mapping with the keys id, objects, pods, config"),
    ('{"id": 1, "object": []}', 1, 'unknown key "object"; a document has the keys'),
    ('{"id": 1, "objects": {}}', 1, "objects: must be a list"),
    ('{"id": 1, "pods": "a"}', 1, 'pods: must be a list of "namespace/name"'),
    ('{"id": 1, "config": {}}', 1, "config: kind: is required"),
    ('{"id": 1, "config": 3}', 1, "config: must be a KubeSchedulerConfiguration"),
]


@pytest.mark.parametrize(("line", "id_", "error"), INVALID_LINES)
def test_invalid_line_yields_one_error(line: str, id_: int | None, error: str) -> None:
    (result,) = Evaluator().line(line)
    assert result == {"id": id_, "error": result["error"]}
    assert result["error"].startswith(error)


def test_empty_lines_and_documents_yield_no_result() -> None:
    assert [*Evaluator().line(" \n"), *Evaluator().line("{}")] == []


def test_config_of_a_document_overrides_the_evaluators() -> None:
    mine = loads(f"apiVersion: {HEAD['apiVersion']}\nkind: {HEAD['kind']}\nprofiles: [{{schedulerName: mine}}]")
    evaluator = Evaluator(mine)
    without_config = document(node("n1"), pod("a").scheduler("mine"))
    assert next(evaluator.results(without_config))["choice"] == ["n1"]
    assert "error" in next(evaluator.results({**without_config, "config": profile()}))
    assert next(evaluator.results(without_config))["choice"] == ["n1"]


def test_extenders_are_ignored_with_one_warning(capsys: pytest.CaptureFixture[str]) -> None:
    config = {**profile(), "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}]}
    evaluator = Evaluator()
    for _ in range(2):
        result = next(evaluator.results(document(node("n1"), pod("a"), config=config)))
        assert result["choice"] == ["n1"]
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning == "pyscheduler: extenders: ignored, because evaluate calls no other program"


# -- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    arguments = ["pyscheduler", "evaluate"]
    monkeypatch.setattr(sys, "argv", arguments)
    return arguments


def test_documents_are_read_from_a_file(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "documents.jsonl"
    lines = [json.dumps(document(node("n1"), pod(name))) for name in "ab"]
    file.write_text("\n".join([lines[0], "", "nonsense", lines[1]]))
    command.append(str(file))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1  # not everything was evaluated
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [result.get("pod") for result in printed] == ["default/a", None, "default/b"]


@pytest.mark.parametrize(
    ("text", "count", "code"),
    [
        pytest.param(json.dumps(document(node("n1"), pod("a"))), 1, 0, id="valid"),
        pytest.param("\n", 0, 0, id="nothing to evaluate"),
        pytest.param(json.dumps(document(pod("a").scheduler("x"), pod("b"))), 2, 1, id="a pod without profile"),
        pytest.param("[]\n{}\n[]", 2, 1, id="documents of the wrong type"),
        pytest.param(json.dumps(document(node("n1"), pod("a")), indent=2), 1, 1, id="a document over many lines"),
        pytest.param("apiVersion: v1\nkind: List\nitems: []\n", 1, 1, id="YAML"),
    ],
)
def test_exit_code_is_1_if_a_result_is_an_error(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, count: int, code: int
) -> None:
    file = tmp_path / "documents.jsonl"
    file.write_text(text)
    command.append(str(file))
    with pytest.raises(SystemExit) as ended:
        main()
    printed, notes = capsys.readouterr()
    assert (ended.value.code, len(printed.splitlines())) == (code, count)
    assert ("nothing to evaluate" in notes) == (count == 0)
    assert ("the input must be one JSON document per line" in printed) == ("not valid JSON" in printed)


def test_documents_are_read_from_standard_input(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.dumps(
        document(node("n1"), pod("é"), id="\ud800")
    ).encode()  # a lone surrogate must not stop the command
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line)))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["pod"] == "default/é"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere.jsonl"], 1, "nowhere.jsonl: cannot be read: No such file or directory"),
        (["--config", "nowhere.yaml"], 1, "nowhere.yaml"),
        (["--nonsense"], 2, "--nonsense"),
        (["a", "b"], 2, "b"),
    ],
)
def test_wrong_usage_is_reported(
    command: list[str], arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command.extend(arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert message in capsys.readouterr().err


def test_example_in_the_help_works(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command.append("--help")
    with pytest.raises(SystemExit):
        main()
    text = capsys.readouterr().out
    example = text[text.index("echo '") :].split("pyscheduler evaluate")[0]
    shell = subprocess.run(["bash", "-c", f"{example} cat"], capture_output=True, text=True, check=True)
    (result,) = Evaluator().line(shell.stdout)
    assert result["filter_message"] == "0/1 nodes are available: 1 Insufficient cpu."
