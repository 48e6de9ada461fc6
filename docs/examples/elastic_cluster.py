"""Adaptive cluster in the style of Dask: as many workers as the load needs, between a minimum and a maximum.

python docs/examples/elastic_cluster.py KUBECONFIG
"""

import asyncio
import sys
from itertools import count

import msgspec

from pyscheduler.backend import KubernetesClient, KubernetesTaskBackend, TaskSpec
from pyscheduler.backend.state.memory import MemoryState


class ElasticCluster:
    """Workers are tasks; a worker that is lost is replaced by its own retries, one that fails by `adapt`."""

    def __init__(self, backend: KubernetesTaskBackend, worker: TaskSpec, minimum: int, maximum: int) -> None:
        self.backend, self.worker, self.minimum, self.maximum = backend, worker, minimum, maximum
        self.numbers = count()

    def workers(self) -> list[str]:
        """Return the workers that live and are not being stopped, the oldest first."""
        return [task for task, record in self.backend.tasks().items() if not record.final and not record.killing]

    async def adapt(self, load: int) -> None:
        """Start or stop workers, the newest first, so that there is one for each unit of load."""
        wanted = max(self.minimum, min(self.maximum, load))
        workers = self.workers()
        for _ in range(wanted - len(workers)):
            await self.backend.submit(msgspec.structs.replace(self.worker, id=f"worker-{next(self.numbers)}"))
        for task in workers[wanted:]:
            await self.backend.kill(task)


async def main(kubeconfig: str, namespace: str, worker: TaskSpec) -> list[int]:
    sizes = []
    client = KubernetesClient(namespace, kubeconfig=kubeconfig)
    async with client, KubernetesTaskBackend(client, MemoryState()) as backend:
        cluster, updates = ElasticCluster(backend, worker, minimum=1, maximum=4), backend.updates()
        for load in (0, 9, 2, 0):
            await cluster.adapt(load)
            while any(backend.task(task).phase != "Running" for task in cluster.workers()):
                await anext(updates)
            sizes.append(len(cluster.workers()))
        for task in cluster.workers():
            await backend.kill(task)
        await backend.wait_until_settled()
    return sizes


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1], "default", TaskSpec(id="worker", image="busybox:1.37"))))
