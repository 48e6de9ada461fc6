"""A pod that fails like an equal one gets the message that an attempt of its own would give it."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.commands import Command
from pyscheduler.core.context import Context
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.result_cache.row_filters import RowFilters
from pyscheduler.core.scheduling import schedule_one
from pyscheduler.core.scheduling.fit_errors import FitError, FitErrorCache, Reasons
from pyscheduler.core.scheduling.report import report
from tests.conformance.generator.generated_cluster import Manifest
from tests.properties.wakeup.cluster import Cluster
from tests.properties.wakeup.story import play

STORIES = 40


class SharedFailures:
    """Failures that were taken from another pod, and those of them that differ from an evaluation of the pod."""

    def __init__(self) -> None:
        self.count = 0
        self.wrong: list[tuple[str, str]] = []

    def repeat(self, context: Context, queued: QueuedPod, fit_error: FitError, now: float) -> list[Command]:
        """Compare the failure with an evaluation of the pod, before it is requeued."""
        self.count += 1
        evaluated, message = report(context, queued.pod).get("fit_error_message", ""), fit_error.failure.message
        if evaluated != message:
            self.wrong.append((message, evaluated))
        return repeat_fit_error(context, queued, fit_error, now)


repeat_fit_error = schedule_one.repeat_fit_error
show_pod = Cluster.show_pod


def _show_twins(self: Cluster, pod: Manifest) -> str:
    """Create two more pods like a pending one: one that is equal, one without labels."""
    if not pod["spec"].get("nodeName"):
        for suffix, has_labels in (("equal", True), ("unlabelled", False)):
            twin = copy.deepcopy(pod)
            meta = twin["metadata"]
            meta["name"] += f"-{suffix}"
            meta["uid"] = f"{meta.get('uid', meta['name'])}-{suffix}"
            meta["labels"] = meta.get("labels", {}) if has_labels else {}
            show_pod(self, twin)
    return show_pod(self, pod)


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> SharedFailures:
    failures = SharedFailures()
    monkeypatch.setattr(schedule_one, "repeat_fit_error", failures.repeat)
    monkeypatch.setattr(Cluster, "show_pod", _show_twins)
    return failures


def search(failures: SharedFailures, feature: str = "") -> None:
    """Play stories until one of them has a wrong failure."""
    for number in range(STORIES):
        play(11, feature, number)
        if failures.wrong:
            return


def test_shared_failure_is_that_of_an_attempt_of_its_own(failures: SharedFailures) -> None:
    search(failures)
    assert not failures.wrong
    assert failures.count > 200


def _never_invalidate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FitErrorCache, "_current_version", lambda self: (0, 0, 0))


def _ignore_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EquivalenceCache, "depends_on", lambda self, plugins: False)


def _ignore_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reasons, "__eq__", lambda self, other: True)


def _keep_tally(monkeypatch: pytest.MonkeyPatch) -> None:
    def set_code(self: RowFilters, row: int, code: int) -> None:
        self._writable_codes()[row] = code

    monkeypatch.setattr(RowFilters, "_set_code", set_code)


@pytest.mark.parametrize(
    ("plant", "feature"),
    [(_never_invalidate, ""), (_ignore_labels, "pod-affinity"), (_ignore_reasons, ""), (_keep_tally, "")],
)
def test_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    feature: str,
    failures: SharedFailures,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    search(failures, feature)
    assert failures.wrong
