"""The stage of a hollow pod follows from its spec, its annotations and the time."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyscheduler.embedded.hollow.container_exit import ExitCodesError, code_of, parse
from pyscheduler.embedded.hollow.pod_lifecycle import LifecycleTimings, invalid_annotations, plan_run, stage_at
from pyscheduler.testing import pod
from tests.unit.hollow.builders import hollow

TIMINGS = LifecycleTimings(start_seconds=1, job_seconds=5, backoff_seconds=10, backoff_max_seconds=15)
OF_A_JOB = pod("p")._with(
    "metadata.ownerReferences", [{"kind": "Job", "name": "j", "uid": "j", "apiVersion": "batch/v1", "controller": True}]
)

RUNS, FAILS = {"run_seconds": 5}, {"fail_after_seconds": 2}
CONTAINER_RUNNING = ("Running", "running", "")
LOOPING = ("Running", "waiting", "CrashLoopBackOff")
FAILED = ("Failed", "terminated", "Error", 0)
DONE = ("Succeeded", "terminated", "Completed", 0)

Stage = tuple[str, str, str, int]


def at(of: Any, moment: float) -> Stage:
    stage = stage_at(plan_run(of, TIMINGS), TIMINGS, 0.0, moment)
    return stage.phase, stage.state, stage.reason, stage.restarts


@pytest.mark.parametrize(
    ("policy", "annotations", "moment", "expected"),
    [
        pytest.param("Always", {}, 0.5, ("Pending", "waiting", "ContainerCreating", 0), id="starting"),
        pytest.param("Always", {}, 1.0, (*CONTAINER_RUNNING, 0), id="started"),
        pytest.param("Always", {}, 1e9, (*CONTAINER_RUNNING, 0), id="a service runs for ever"),
        pytest.param("Never", {}, 1e9, (*CONTAINER_RUNNING, 0), id="a bare pod runs for ever"),
        pytest.param("Never", RUNS, 5.9, (*CONTAINER_RUNNING, 0), id="not yet done"),
        pytest.param("Never", RUNS, 6.0, DONE, id="done"),
        pytest.param("OnFailure", RUNS, 6.0, DONE, id="done with OnFailure"),
        pytest.param("Never", FAILS, 3.0, FAILED, id="failed"),
        pytest.param("Never", RUNS | FAILS, 9, FAILED, id="the shorter time applies"),
        pytest.param("OnFailure", FAILS, 3.0, (*CONTAINER_RUNNING, 1), id="first restart at once"),
        pytest.param("OnFailure", FAILS, 5, (*LOOPING, 1), id="crash loop"),
        pytest.param("OnFailure", FAILS, 15, (*CONTAINER_RUNNING, 2), id="after 10 s"),
        pytest.param("OnFailure", FAILS, 31.9, (*LOOPING, 2), id="15 s at most"),
        pytest.param("OnFailure", FAILS, 32, (*CONTAINER_RUNNING, 3), id="after 15 s"),
        pytest.param("Always", {"run_seconds": 2}, 3.0, (*CONTAINER_RUNNING, 1), id="Always restarts a success"),
        pytest.param("Never", {"run_seconds": "soon"}, 1e9, (*CONTAINER_RUNNING, 0), id="malformed annotation"),
        pytest.param("Never", {"run_seconds": -1}, 1e9, (*CONTAINER_RUNNING, 0), id="negative annotation"),
    ],
)
def test_stage_of_a_pod(policy: str, annotations: dict[str, Any], moment: float, expected: Stage) -> None:
    assert at(hollow(policy=policy, **annotations), moment) == expected


def test_pod_of_a_job_ends_after_job_seconds() -> None:
    assert at(hollow(OF_A_JOB, policy="Never"), 5.9)[0] == "Running"
    assert at(hollow(OF_A_JOB, policy="Never"), 6.0)[0] == "Succeeded"


def test_annotation_overrides_job_seconds() -> None:
    assert at(hollow(OF_A_JOB, policy="Never", run_seconds=60), 60.0)[0] == "Running"


def test_stage_has_its_end_time() -> None:
    plan = plan_run(hollow(policy="Never", run_seconds=5), TIMINGS)
    assert [stage_at(plan, TIMINGS, 0.0, now).until for now in (0.0, 1.0, 6.0)] == [1.0, 6.0, math.inf]


def test_restarted_container_has_its_last_run() -> None:
    plan = plan_run(hollow(policy="Always", fail_after_seconds=2), TIMINGS)
    assert stage_at(plan, TIMINGS, 0.0, 4.0).last_run == (1.0, 3.0)


def test_malformed_annotations_are_reported() -> None:
    assert invalid_annotations(hollow(run_seconds="soon", fail_after_seconds=1, exits="0; never")) == [
        "pyscheduler.io/run-seconds is not a number of seconds",
        "pyscheduler.io/exits: 'never' is not a rule such as 'index 2 attempt 0-1: 42', with a code of 0 to 255",
    ]


@pytest.mark.parametrize(
    ("exits", "index", "attempt", "code"),
    [
        pytest.param("3", -1, 0, 3, id="always"),
        pytest.param("attempt 0: 1; 0", -1, 0, 1, id="the first fails"),
        pytest.param("attempt 0: 1; 0", -1, 1, 0, id="the second succeeds"),
        pytest.param("attempt 0-2: 1", -1, 3, 0, id="a run without matching rule succeeds"),
        pytest.param("index 2,5-6: 42; 7", 6, 0, 42, id="an index in a range"),
        pytest.param("index 2,5-6: 42; 7", 3, 0, 7, id="another index"),
        pytest.param("index 2: 42; 7", -1, 0, 7, id="a pod without an index"),
        pytest.param("index 1 attempt 0: 137; 0", 1, 0, 137, id="both conditions"),
        pytest.param("index 1 attempt 0: 137; 0", 1, 1, 0, id="one of them only"),
    ],
)
def test_exit_codes_by_index_and_attempt(exits: str, index: int, attempt: int, code: int) -> None:
    assert code_of(parse(exits), index, attempt) == code


@pytest.mark.parametrize("text", ["x", "256", "1-2", "index: 3", "index a: 3", "attempt 1-: 0", "color 1: 0", "-1"])
def test_malformed_rule_raises(text: str) -> None:
    with pytest.raises(ExitCodesError, match="is not a"):
        parse(text)


def test_container_restarts_count_as_attempts() -> None:
    assert at(hollow(policy="OnFailure", run_seconds=2, exits="attempt 0: 1; 0"), 3.0) == (*CONTAINER_RUNNING, 1)
    assert at(hollow(policy="OnFailure", run_seconds=2, exits="attempt 0: 1; 0"), 5.0) == (*DONE[:3], 1)


def test_failed_pods_count_as_attempts() -> None:
    plan = plan_run(hollow(policy="Never", run_seconds=2, exits="attempt 0: 1; 0"), TIMINGS, earlier=1)
    assert stage_at(plan, TIMINGS, 0.0, 9.0).phase == "Succeeded"


def test_long_run_resets_the_backoff() -> None:
    of = hollow(policy="Always", run_seconds=31)
    assert at(of, 32.0 + 31) == (*CONTAINER_RUNNING, 2), "without backoff"


def test_timings_without_backoff_raise() -> None:
    with pytest.raises(ValueError, match="backoff_seconds"):
        LifecycleTimings(backoff_seconds=0)
