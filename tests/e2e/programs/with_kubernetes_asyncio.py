"""Objects through the asyncio client: created, watched, patched, deleted."""

from __future__ import annotations

import asyncio
import sys

from kubernetes_asyncio import client, config, watch


async def main(namespace: str) -> None:
    await config.load_kube_config()
    async with client.ApiClient() as api_client:
        core = client.CoreV1Api(api_client)
        since = (await core.list_namespaced_config_map(namespace)).metadata.resource_version
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="asyncio"), data={"a": "b"})
        await core.create_namespaced_config_map(namespace, body)
        await core.patch_namespaced_config_map("asyncio", namespace, {"data": {"a": "c"}})
        await core.delete_namespaced_config_map("asyncio", namespace)
        async with watch.Watch() as stream:
            call = core.list_namespaced_config_map
            async for event in stream.stream(call, namespace, resource_version=since, timeout_seconds=20):
                print("event", event["type"], event["object"].data["a"])
                if event["type"] == "DELETED":
                    break


asyncio.run(main(sys.argv[1]))
