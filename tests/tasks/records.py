"""Task records for tests of state stores."""

from __future__ import annotations

from pyscheduler.backend.outcomes import Outcome
from pyscheduler.backend.task import RetryPolicy, TaskGang, TaskPhase, TaskRecord, TaskSpec


def spec(id: str, **fields: object) -> TaskSpec:
    """Return the spec of a small task."""
    return TaskSpec(id=id, image="pause:1", cpu="100m", **fields)  # type: ignore[arg-type]  # any field of a spec


def record(id: str, **fields: object) -> TaskRecord:
    """Return the record of a small task."""
    return TaskRecord(spec=spec(id), **fields)  # type: ignore[arg-type]  # any field of a record


def full_record(id: str) -> TaskRecord:
    """Return a record with non-default values in most fields, so that a lost field is noticed."""
    return TaskRecord(
        spec=spec(
            id,
            env={"A": "ä", "QUOTED": '"\\\n'},
            command=("sh", "-c"),
            queue="night",
            gang=TaskGang(name="g", size=3),
            retry=RetryPolicy(application=2, backoff_seconds=0.25),
            deadline_seconds=12.5,
            owner={"table": "orders", "since": None, "parts": [1, 2.5, True]},
        ),
        phase=TaskPhase.FAILED,
        attempt=3,
        pod_uid="0b7c",
        node="node-1",
        reason=Outcome.OOM_KILLED,
        message="a container used more memory than its limit",
        exit_code=137,
        submitted_at=1_700_000_000.125,
        started_at=1_700_000_001.0,
        finished_at=1_700_000_002.5,
        killing=True,
        ending=Outcome.KILLED,
        failures={"application": 2},
        next_spec=spec(id, labels={"a": "b"}),
        acknowledged=True,
        version=9,
    )
