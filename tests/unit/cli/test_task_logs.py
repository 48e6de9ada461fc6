"""`tasks logs` of a pod that was deleted."""

from __future__ import annotations

import msgspec
import pytest

from pyscheduler.backend.task import TaskPhase
from pyscheduler.cli.problems import CommandProblem
from pyscheduler.cli.task_logs import LogOptions, PodSource, print_log
from pyscheduler.cli.task_view import TaskRow
from pyscheduler.embedded.cluster import EmbeddedCluster
from tests.tasks.records import record


async def test_error_for_a_deleted_pod_names_the_flags_that_keep_logs() -> None:
    done = record("hello", phase=TaskPhase.SUCCEEDED)
    async with EmbeddedCluster(nodes=0) as cluster:
        source = msgspec.json.encode(PodSource(str(cluster.kubeconfig), "", "default", "tasks")).decode()
        with pytest.raises(CommandProblem, match=r"any more; .* with --keep-failed-seconds, and all logs with --logs"):
            await print_log(
                TaskRow("hello", done.phase, done.spec, done, ""), source, LogOptions(False, None, "", None)
            )
