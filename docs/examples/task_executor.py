"""Executor in the style of Airflow: jobs are started, a heartbeat collects their ends, a restart adopts what runs.

python docs/examples/task_executor.py KUBECONFIG STATE-FILE
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from pyscheduler.backend import BlockingTaskBackend, KubernetesClient, TaskRecord, TaskSpec
from pyscheduler.backend.state.sqlite import SqliteState


class TaskExecutor:
    """Runs one pod per job. `events` holds the ends that the platform has not handled yet."""

    def __init__(self, backend: BlockingTaskBackend, template: TaskSpec) -> None:
        self.backend, self.template = backend, template
        self.running = {task for task, record in backend.tasks().items() if not record.final}  # adopted
        self.events: dict[str, TaskRecord] = {}

    def execute(self, key: str, command: Iterable[str]) -> None:
        """Start a job. Starting it again, for example after a crash of the platform, has no effect."""
        self.backend.submit(msgspec.structs.replace(self.template, id=key, command=tuple(command)))
        self.running.add(key)

    def heartbeat(self) -> None:
        """Collect the jobs that have ended."""
        ended = {task: record for task, record in self.backend.tasks().items() if record.final}
        self.events |= {task: ended[task] for task in self.running & ended.keys()}
        self.running -= ended.keys()


def main(kubeconfig: str, file: str, namespace: str, template: TaskSpec) -> dict[str, TaskRecord]:
    jobs = {f"job-{i}": ("echo", str(i)) for i in range(3)}
    for _ in ("first process", "next process"):  # the second adopts the jobs of the first
        client = KubernetesClient(namespace, kubeconfig=kubeconfig)
        with BlockingTaskBackend(client, SqliteState(Path(file))) as backend:
            executor = TaskExecutor(backend, template)
            for key, command in jobs.items():
                executor.execute(key, command)
    with BlockingTaskBackend(KubernetesClient(namespace, kubeconfig=kubeconfig), SqliteState(Path(file))) as backend:
        executor = TaskExecutor(backend, template)
        executor.running = set(jobs)
        for _ in backend.updates():
            executor.heartbeat()
            if not executor.running:
                break
        backend.wait_until_settled()
    return executor.events


if __name__ == "__main__":
    QUICK = TaskSpec(id="template", image="busybox:1.37", annotations={"pyscheduler.io/run-seconds": "1"})
    for key, record in main(sys.argv[1], sys.argv[2], "default", QUICK).items():
        print(key, record.phase)
