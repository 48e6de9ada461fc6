"""Submit a task and wait for its end: python docs/examples/first_task.py KUBECONFIG STATE-FILE"""

import asyncio
import sys
from pathlib import Path

from pyscheduler.backend import KubernetesClient, KubernetesTaskBackend, TaskSpec
from pyscheduler.backend.state.sqlite import SqliteState

# Hollow nodes run no containers and read the run time from the annotation; other nodes ignore it.
HELLO = TaskSpec(
    id="hello",
    image="busybox:1.37",
    command=("echo", "hello"),
    cpu="100m",
    annotations={"pyscheduler.io/run-seconds": "1"},
)


async def main(kubeconfig: str, file: str) -> None:
    client = KubernetesClient("default", kubeconfig=kubeconfig)
    async with client, KubernetesTaskBackend(client, SqliteState(Path(file))) as backend:
        await backend.submit(HELLO)
        async for record in backend.updates():
            print(record.id, record.phase, record.message)
            if record.final:
                break
        await backend.wait_until_settled()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
