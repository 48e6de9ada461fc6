"""`pyscheduler replay`: whether the decisions of a recording are reproduced, and why a pod got its node."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from pyscheduler import __version__
from pyscheduler.api import Cycle, NodeInfo, PermitPlugin, Pod, Wait
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.program import app
from pyscheduler.core.queue.queue import SchedulingQueue
from pyscheduler.shell.recording.file import RecordingReader, compress_batch, encode_header
from pyscheduler.testing import Harness, node, pod
from tests.unit.cli.recorded_shop import EPOCH, place, record, shop

Json = dict[str, Any]
MISSING_PLUGIN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {filter: {enabled: [{name: "none_such:Plugin"}]}}
"""
WITH_PERMIT = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {{permit: {{enabled: [{{name: "{__name__}:WaitForSecond"}}]}}}}
"""


def replayed(*words: object) -> Result:
    return CliRunner(env={"COLUMNS": "240"}).invoke(app, ["replay", *map(str, words)])


def as_json(*words: object) -> Json:
    result = replayed(*words, "-o", "json")
    assert result.exit_code == 0, result.output
    found: Json = json.loads(result.stdout)
    return found


def problem(*words: object) -> str:
    result = replayed(*words)
    assert isinstance(result.exception, CommandProblem), result.output
    return str(result.exception)


def test_recorded_decisions_are_reproduced(tmp_path: Path) -> None:
    record(tmp_path, shop)
    found = as_json(tmp_path)
    assert found["difference"] is None
    assert (found["attempts"], found["events"] > 8, found["commands"] >= 3, found["isTorn"]) == (2, True, True, False)
    assert "all decisions are equal" in replayed(tmp_path).stdout


def test_pods_of_a_recording_are_listed_with_their_last_results(tmp_path: Path) -> None:
    def place_after_the_shop(harness: Harness) -> None:
        shop(harness)
        place(harness, "a", "b")

    record(tmp_path, place_after_the_shop)
    listed = [json.loads(line) for line in replayed(tmp_path, "--pods", "-o", "json").stdout.splitlines()]
    shown = [(each["pod"], each["attempts"], each["result"]) for each in listed]
    assert shown == [("default/a", 1, "Scheduled"), ("default/b", 1, "Scheduled"), ("shop/web", 2, "Scheduled")]
    assert listed[-1]["node"] == "worker-3"
    assert "3 pods, 4 attempts" in replayed(tmp_path, "--pods").stdout


def test_pod_without_a_node_is_listed_with_its_reason(tmp_path: Path) -> None:
    def place_without_nodes(harness: Harness) -> None:
        harness.add(pod("a"))
        harness.run()

    record(tmp_path, place_without_nodes)
    listed = json.loads(replayed(tmp_path, "--pods", "-o", "json").stdout)
    assert (listed["result"], listed["node"]) == ("Unschedulable", "")
    assert "no nodes available" in listed["reason"]


def test_list_of_pods_excludes_one_pod(tmp_path: Path) -> None:
    record(tmp_path, shop)
    assert problem(tmp_path, "--pods", "--pod", "shop/web") == "--pods and --pod exclude each other"


def test_version_of_the_recording_is_shown_beside_another_one(tmp_path: Path) -> None:
    file = record(tmp_path, shop)
    assert f"Version   {__version__}\n" in re.sub(r" +\n", "\n", replayed(file).stdout)
    file.write_bytes(encode_header(replace(RecordingReader(file).header, version="0.0.9")))
    assert f"Version   0.0.9, this is {__version__}" in replayed(file).stdout


def test_difference_has_the_names_of_commands_and_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, lambda harness: place(harness, "a"))
    monkeypatch.setattr(SchedulingQueue, "pop", lambda *_: None)
    found = json.loads(replayed(tmp_path, "-o", "json").stdout)["difference"]
    assert (found["recorded"]["command"], found["recorded"]["node"]) == ("bind", "worker-3")
    assert found["replayed"] is None


def test_first_decision_that_differs_is_shown_with_its_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, lambda harness: place(harness, "a", "b"))
    pop = SchedulingQueue.pop

    def pop_without_b(self: SchedulingQueue, now: float) -> Any:
        queued = pop(self, now)
        return None if queued is not None and queued.pod.name == "b" else queued

    monkeypatch.setattr(SchedulingQueue, "pop", pop_without_b)
    result = replayed(tmp_path)
    assert result.exit_code == 1
    assert "a decision of default/b differs at 2026-05-04T" in result.stdout
    assert "Recorded  bind node=worker-3" in result.stdout
    assert "Replayed  no command" in result.stdout


def test_failed_attempt_lists_the_rejections_of_that_moment(tmp_path: Path) -> None:
    record(tmp_path, shop)
    found = as_json(tmp_path, "--pod", "shop/web", "--attempt", "1")
    assert [(each["result"], each["node"]) for each in found["attempts"]] == [
        ("Unschedulable", ""),
        ("Scheduled", "worker-3"),
    ]
    rejected = {" ".join(each["nodes"]): each["rejections"] for each in found["explanation"]["rejected"]}
    assert {each["plugin"] for each in rejected["worker-3"]} == {"TaintToleration", "NodeUnschedulable"}
    assert [each["plugin"] for each in rejected["worker-1"]] == ["NodeResourcesFit"]
    assert found["explanation"]["feasible"] == []


def test_scheduled_attempt_compares_the_chosen_node(tmp_path: Path) -> None:
    record(tmp_path, shop)
    found = as_json(tmp_path, "--pod", "shop/web")
    assert found["explained"] == 2
    assert [each["node"] for each in found["explanation"]["feasible"]] == ["worker-3"]
    assert found["explanation"]["node"] == "worker-3"


@pytest.mark.parametrize(
    ("at", "number"), [("2026-05-04T10:20:10Z", 1), ("2026-05-04T12:20:10+02:00", 1), ("2026-05-04T10:20:21", 2)]
)
def test_last_attempt_until_a_time_is_explained(tmp_path: Path, at: str, number: int) -> None:
    record(tmp_path, shop)
    assert as_json(tmp_path, "--pod", "shop/web", "--at", at)["explained"] == number


def test_attempts_of_all_recordings_in_the_directory_are_listed(tmp_path: Path) -> None:
    first, second = record(tmp_path / "a", shop), record(tmp_path / "b", shop)
    first.rename(second.with_name("0.recording"))
    second.with_name("9.recording").write_bytes(b"")  # of a process that has just started
    found = as_json(tmp_path / "b", "--pod", "shop/web")
    assert [each["number"] for each in found["attempts"]] == [1, 2, 3, 4]


def test_recording_is_replayed_up_to_its_last_complete_batch(tmp_path: Path) -> None:
    file = record(tmp_path, shop)
    whole = file.read_bytes()
    file.write_bytes(whole + whole[-200:-100])
    found = as_json(file)
    assert (found["isTorn"], found["attempts"], found["difference"]) == (True, 2, None)
    assert "the last batch is incomplete" in replayed(file).stdout
    assert "The last batch of a recording is incomplete" in replayed(file, "--pod", "shop/web").stdout


def test_damaged_recording_is_not_called_equal(tmp_path: Path) -> None:
    file = record(tmp_path, shop)
    damaged = bytearray(file.read_bytes())
    damaged[-50] ^= 0xFF
    file.write_bytes(damaged)
    shown = replayed(file).stdout
    assert "there is nothing to compare" in shown
    assert "the file is damaged" in shown


def test_wrong_arguments_have_errors_of_one_line(tmp_path: Path) -> None:
    file = record(tmp_path, shop)
    assert problem(file, "--pod", "shop/none") == "no pod shop/none was recorded; --pods lists all"
    assert problem(file, "--pod", "shop/mail") == "pod shop/mail has no attempt in the recording"
    assert problem(file, "--pod", "shop/web", "--attempt", "3") == "--attempt 3: the pod has 2 in the recording"
    assert problem(file, "--attempt", "3").startswith("--attempt and --at choose an attempt of a pod")
    assert problem(file, "--pod", "a/b", "--attempt", "3", "--at", "2026-01-01").endswith("exclude each other")
    early = problem(file, "--pod", "shop/web", "--at", "2026-01-01T00:00:00Z")
    assert early == "--at: the first attempt of the pod was at 2026-05-04T10:20:00.000Z"


def test_error_for_workload_name_lists_its_pods(tmp_path: Path) -> None:
    file = record(tmp_path, lambda harness: place(harness, "cart-1", "cart-2", "carts"))
    hint = "there are default/cart-1, default/cart-2"
    assert problem(file, "--pod", "cart") == f"no pod default/cart was recorded; {hint}; --pods lists all"


def test_invalid_recording_files_are_rejected(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("kind: Pod\n")
    assert problem(other).endswith("other.yaml: is not a recording of `pyscheduler run --record`")
    assert problem(tmp_path).endswith("there is no recording in this directory (*.recording)")
    other.write_bytes(b"pyscheduler recording 9\n")
    assert "has another format than 1: replay it with the version that made it" in problem(other)
    other.write_bytes(b"pyscheduler recording 1\n")
    assert problem(other).endswith("the recording ends in its header: nothing was recorded")
    other.write_bytes(b"pyscheduler recording 1\n" + compress_batch(b"\x80"))
    assert "the header cannot be read: Object missing required field" in problem(other)


def test_missing_plugin_is_named(tmp_path: Path) -> None:
    file = record(tmp_path, shop)
    file.write_bytes(encode_header(replace(RecordingReader(file).header, config=MISSING_PLUGIN)))
    text = problem(file)
    assert "the configuration cannot be loaded here" in text
    assert "none_such" in text
    assert "\n" not in text


class WaitForSecond(PermitPlugin):
    """The first pod waits until the second one is attempted."""

    name = "WaitForSecond"

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | None:
        for waiting in self.handle.waiting_pods:
            waiting.allow(self.name)
        return Wait(60.0) if pod.name == "first" else None


def test_pod_that_waited_in_permit_is_explained_as_before_its_attempt(tmp_path: Path) -> None:
    def play(harness: Harness) -> None:
        harness.add(node("n", cpu="1"), pod("first").requests(cpu="1"))
        harness.run()
        harness.advance(5.0)
        harness.add(node("m", cpu="1"), pod("second").requests(cpu="1"))
        harness.run()

    found = as_json(record(tmp_path, play, WITH_PERMIT), "--pod", "first")
    assert [each["time"] for each in found["attempts"]] == [EPOCH + 1000.0]
    assert [each["node"] for each in found["explanation"]["feasible"]] == ["n"]


def test_binding_that_fails_is_listed_and_its_attempt_explained(tmp_path: Path) -> None:
    def play(harness: Harness) -> None:
        harness.binding_error = lambda _pod, _node: "the server is overloaded"
        place(harness, "a")

    file = record(tmp_path, play)
    found = as_json(file, "--pod", "a")
    assert [(each["number"], each["result"]) for each in found["attempts"]] == [
        (1, "Scheduled"),
        (None, "BindingFailed"),
    ]
    assert "the server is overloaded" in found["attempts"][1]["reason"]
    assert (found["explained"], found["explanation"]["node"]) == (1, "worker-3")
    assert problem(file, "--pod", "a", "--attempt", "2") == "--attempt 2: the pod has 1 in the recording"
