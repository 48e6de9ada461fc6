"""Graph of tasks in the style of Argo: each step runs after those that it needs; a failure skips what depends on it.

python docs/examples/task_graph.py KUBECONFIG
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter

import msgspec

from pyscheduler.backend import KubernetesClient, KubernetesTaskBackend, TaskPhase, TaskSpec
from pyscheduler.backend.state.memory import MemoryState

GRAPH: dict[str, Sequence[str]] = {
    "extract": (),
    "clean": ("extract",),
    "train": ("clean",),
    "report": ("clean",),
    "publish": ("train", "report"),
}


async def run_graph(
    backend: KubernetesTaskBackend, graph: Mapping[str, Sequence[str]], steps: Mapping[str, TaskSpec]
) -> dict[str, str]:
    """Run all steps and return their phases; skipped ones are "Skipped". Resumes if the backend has records."""
    sorter, phases = TopologicalSorter(graph), dict[str, str]()
    sorter.prepare()
    updates = backend.updates()
    while sorter.is_active():
        for step in sorter.get_ready():
            if all(phases[need] == TaskPhase.SUCCEEDED for need in graph[step]):
                await backend.submit(steps[step])
            else:
                phases[step] = "Skipped"
                sorter.done(step)
        if len(phases) == len(graph):
            break
        if sorter.is_active() and any(step not in phases for step in backend.tasks()):
            record = await anext(updates)
            if record.final and record.id not in phases:
                phases[record.id] = record.phase
                sorter.done(record.id)
    return phases


async def main(kubeconfig: str, namespace: str, template: TaskSpec) -> dict[str, str]:
    steps = {step: msgspec.structs.replace(template, id=step, command=("run", step)) for step in GRAPH}
    client = KubernetesClient(namespace, kubeconfig=kubeconfig)
    async with client, KubernetesTaskBackend(client, MemoryState()) as backend:
        phases = await run_graph(backend, GRAPH, steps)
        await backend.wait_until_settled()
    return phases


if __name__ == "__main__":
    QUICK = TaskSpec(id="template", image="busybox:1.37", annotations={"pyscheduler.io/run-seconds": "1"})
    print(asyncio.run(main(sys.argv[1], "default", QUICK)))
