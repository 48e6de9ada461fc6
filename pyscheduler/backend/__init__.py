"""Runs a platform's jobs as pods, one pod each: submit, kill, be told, know what is free. Survives kill -9.

async with KubernetesClient("jobs", kubeconfig=path) as client:
    async with KubernetesTaskBackend(client, state, FixedBudget(Resources.of({"cpu": "100"}))) as backend:
        await backend.submit(TaskSpec(id="nightly-7", image="busybox:1.37", command=("true",), cpu="500m"))
        async for record in backend.updates():
            ...
"""
