"""Pods that fail like an equal one before them: without filtering, but with the events and counts of an attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from pyscheduler.api import Cycle, Diagnosis, FilterPlugin, NodeInfo, Pod, PostFilterPlugin, Reads, Rejection
from pyscheduler.core.commands import PatchStatus
from pyscheduler.core.scheduling.fit_errors import FitErrorCache
from pyscheduler.core.scheduling.schedule_one import MAX_SIBLINGS
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder, node, pod
from tests.scenarios.test_instrument import BUDGETS, Recorder

calls: Counter[tuple[str, str]] = Counter()
"""Number of calls by (point, pod)."""
MESSAGE = (
    "0/1 nodes are available: 1 node is small. "
    "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


class ByNode(FilterPlugin):
    """Reject small nodes, by the node object and the pod's signature group."""

    name = "ByNode"
    reads = Reads.OWN_NODE
    reads_labels = reads_claims = reads_match_fields = False

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        calls["Filter", pod.name] += 1
        return Rejection("node is small", resolvable=False) if "small" in node.labels else None


class ByLabels(ByNode):
    """Reads labels."""

    name = "ByLabels"
    reads_labels = True


class ByName(ByNode):
    """Reads the pod's name."""

    name = "ByName"
    reads_identity = True


class ByAnything(ByNode):
    """Reads anything."""

    name = "ByAnything"
    reads = Reads.EVERYTHING


class Post(PostFilterPlugin):
    """Count calls and reject."""

    name = "Post"

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Rejection:
        calls["PostFilter", pod.name] += 1
        return Rejection("nothing to be done")


class RepeatablePost(Post):
    """Count calls and reject each pod of a signature alike."""

    name = "RepeatablePost"
    is_repeatable = True


def harness_of(*plugins: str, instrument: Recorder | None = None) -> Harness:
    enabled = "".join(f"\n      - name: {__name__}:{plugin}" for plugin in plugins)
    config = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:{enabled}
"""
    return Harness(config, instrument=instrument) if instrument else Harness(config)


def attempt(harness: Harness, *pods: PodBuilder, small: NodeBuilder | None = None) -> list[str]:
    """Attempt the pods on a small node and return the names of those that were filtered."""
    harness.add(small or node("n").label("small"), *pods)
    harness.run()
    return [name for point, name in calls if point == "Filter"]


def test_equal_pods_fail_without_filtering() -> None:
    recorder = Recorder()
    harness = harness_of("ByNode", instrument=recorder)
    assert attempt(harness, pod("a"), pod("b"), pod("c")) == ["a"]
    assert harness.events("a") == harness.events("c") == [("FailedScheduling", MESSAGE)]
    assert harness.pending_message("c") == MESSAGE
    patched = [c.pod.name for c in harness.commands if isinstance(c, PatchStatus)]
    assert patched == ["a", "b", "c"]
    assert [queued.attempts for queued in harness.machine.context.queue.pending()] == [1, 1, 1]
    assert recorder.points["PreFilter", "Success"] == recorder.points["Filter", "Unschedulable"] == 3
    assert recorder.points["PostFilter", "Unschedulable"] == 3


@pytest.mark.parametrize(
    ("plugin", "filtered"),
    [("ByNode", ["a"]), ("ByLabels", ["a", "b"]), ("ByName", ["a", "b", "c"]), ("ByAnything", ["a", "b", "c"])],
)
def test_fit_error_holds_for_the_pods_between_which_no_plugin_can_tell(plugin: str, filtered: list[str]) -> None:
    pods = (pod("a").label("index", "0"), pod("b").label("index", "1"), pod("c").label("index", "0"))
    assert attempt(harness_of(plugin), *pods) == filtered


def test_pods_of_another_template_are_filtered() -> None:
    assert attempt(harness_of("ByNode"), pod("a"), pod("b").requests(cpu="1"), pod("c").priority(1)) == ["c", "a", "b"]


def failures_by_call(harness: Harness) -> list[list[str]]:
    """Return the names of the pods that fail in each call of the machine."""
    calls = []
    while (commands := harness.machine.cycle(harness.now)) is not None:
        calls.append([command.pod.name for command in commands if isinstance(command, PatchStatus)])
    return calls


def test_equal_pods_fail_in_one_call_up_to_the_next_attempt() -> None:
    harness = harness_of("ByNode")
    others = pod("other").requests(cpu="1"), pod("d")
    harness.add(node("n").label("small"), pod("a"), pod("b"), pod("c"), *others)
    assert failures_by_call(harness) == [["a"], ["b", "c"], ["other"], ["d"]]


def test_number_of_pods_that_fail_in_one_call_is_limited() -> None:
    harness = harness_of("ByNode")
    harness.add(node("n").label("small"), *(pod(f"p{i}") for i in range(MAX_SIBLINGS + 3)))
    assert list(map(len, failures_by_call(harness))) == [1, MAX_SIBLINGS + 1, 1]


def test_terminating_pod_among_equal_ones_is_skipped() -> None:
    harness = harness_of("ByNode")
    harness.add(node("n").label("small"), pod("a"), pod("b"), pod("c"), pod("d"))
    harness.add(pod("c").deleting())
    assert failures_by_call(harness) == [["a"], ["b"], [], ["d"]]


@pytest.mark.parametrize(("plugin", "called"), [("Post", ["a", "b"]), ("RepeatablePost", ["a"])])
def test_post_filter_is_called_for_each_pod_unless_it_is_repeatable(plugin: str, called: list[str]) -> None:
    attempt(harness_of("ByNode", plugin), pod("a"), pod("b"))
    assert [name for point, name in calls if point == "PostFilter"] == called


def _add_node(harness: Harness) -> None:
    harness.add(node("large"))


def _change_node(harness: Harness) -> None:
    harness.add(node("n"))


def _delete_pod(harness: Harness) -> None:
    harness.delete_pod("running")


@pytest.mark.parametrize("change", [_add_node, _change_node])
def test_fit_error_is_valid_until_the_state_changes(change: Callable[[Harness], None]) -> None:
    harness = harness_of("ByNode")
    attempt(harness, pod("a"))
    change(harness)
    attempt(harness, pod("b"), small=node("other").label("small"))
    assert "b" in harness.assignments


def test_deleted_pod_makes_room() -> None:
    harness = Harness()
    harness.add(node("n", cpu="1"), pod("running").requests(cpu="1").on("n"))
    harness.add(pod("a").requests(cpu="1"), pod("b").requests(cpu="1"))
    harness.run()
    _delete_pod(harness)
    harness.advance(2)
    assert len(harness.assignments) == 1


def test_fit_error_is_valid_until_objects_or_nominated_pods_change() -> None:
    harness = harness_of("ByNode")
    attempt(harness, pod("a"))
    context = harness.machine.context
    b = context.shapes.pod(pod("b").object())
    fit_errors, nominator = context.runtimes["default-scheduler"].fit_errors, context.queue.nominator
    assert fit_errors.get(b)
    harness.add_object(BUDGETS, {"metadata": {"name": "pdb", "namespace": "default"}, "spec": {}})
    assert not fit_errors.get(b), "PostFilter may read the object"
    attempt(harness, pod("c"))
    assert fit_errors.get(b)
    nominator.add(pod("nominated").build(), "n")
    assert not fit_errors.get(b)
    nominator.remove("nominated")
    assert not fit_errors.get(b)


def test_nominated_pod_is_filtered() -> None:
    harness = harness_of("ByNode")
    assert attempt(harness, pod("a"), pod("b").nominated("n")) == ["a", "b"]


def test_fit_error_that_outlives_the_state_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FitErrorCache, "_current_version", lambda self: (0, 0, 0))
    for test in (test_deleted_pod_makes_room, lambda: test_fit_error_is_valid_until_the_state_changes(_add_node)):
        with pytest.raises(AssertionError):
            test()
