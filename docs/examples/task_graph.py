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
    sorter, phases, running = TopologicalSorter(graph), dict[str, str](), set[str]()
    sorter.prepare()
    updates = backend.updates()
    while sorter.is_active():
        for step in sorter.get_ready():
            if all(phases[need] == TaskPhase.SUCCEEDED for need in graph[step]):
                await backend.submit(steps[step])
                running.add(step)
            else:
                phases[step] = "Skipped"
                sorter.done(step)
        ended = {step: backend.task(step).phase for step in running if backend.task(step).final}
        if running and not ended:
            await anext(updates)
        phases |= ended
        running -= ended.keys()
        sorter.done(*ended)
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
