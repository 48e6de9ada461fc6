"""A typical kube-scheduler extender: a small web service controlled by annotations.

    python -m tests.e2e.extender PORT KUBECONFIG LOG

It responds in the form of the request, with whole nodes or with names, and writes every call to LOG as a line of JSON.
It treats kube-scheduler and this scheduler alike.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from aiohttp import web

from tests.e2e.client import ApiClient, Json

KEEP, PREFER, PREEMPT = (f"extender.example.com/{word}" for word in ("keep", "prefer", "preempt"))
"""Annotations of pods: allowed nodes, separated by commas; the best node; the node for preemption."""
NEVER = "extender.example.com/never"
"""A label of nodes that it rejects for every pod."""
BOUND_BY = "extender.example.com/bound"
REFUSED, REFUSED_FOR_GOOD = "not on the list", "never on the list"


class Extender:
    """The verbs of the service."""

    def __init__(self, api: ApiClient, log: Path) -> None:
        self._api = api
        self._log = log

    async def filter(self, request: web.Request) -> web.Response:
        args = await self._args("filter", request)
        by_name = _names(args)
        wanted = _order(args, KEEP).split(",") if _order(args, KEEP) else list(by_name)
        kept = [name for name in by_name if name in wanted]
        refused = {name: REFUSED for name in by_name if name not in wanted}
        for name, node in by_name.items():
            if NEVER in (node or {}).get("metadata", {}).get("labels", {}):
                refused.pop(name, None)
        answer: Json = {"FailedNodes": refused, "Error": ""}
        answer["FailedAndUnresolvableNodes"] = {
            name: REFUSED_FOR_GOOD for name in by_name if name not in kept and name not in refused
        }
        if args["NodeNames"] is None:
            answer["Nodes"] = {"metadata": {}, "items": [by_name[name] for name in kept]}
        else:
            answer["NodeNames"] = kept
        return web.json_response(answer)

    async def prioritize(self, request: web.Request) -> web.Response:
        args = await self._args("prioritize", request)
        best = _order(args, PREFER)
        return web.json_response([{"Host": name, "Score": 10 if name == best else 0} for name in _names(args)])

    async def preempt(self, request: web.Request) -> web.Response:
        args = await self._args("preempt", request)
        whole, meta = args["NodeNameToVictims"], args["NodeNameToMetaVictims"]
        if whole is not None:
            uids = {name: [pod["metadata"]["uid"] for pod in victims["Pods"]] for name, victims in whole.items()}
        else:
            uids = {name: [pod["UID"] for pod in victims["Pods"]] for name, victims in meta.items()}
        left = {name: found for name, found in uids.items() if name == _order(args, PREEMPT)}
        victims = {
            name: {"Pods": [{"UID": uid} for uid in found], "NumPDBViolations": 0} for name, found in left.items()
        }
        return web.json_response({"NodeNameToMetaVictims": victims})

    async def bind(self, request: web.Request) -> web.Response:
        args = await self._args("bind", request)
        path = f"/api/v1/namespaces/{args['PodNamespace']}/pods/{args['PodName']}/binding"
        meta = {"name": args["PodName"], "uid": args["PodUID"], "annotations": {BOUND_BY: "yes"}}
        target = {"apiVersion": "v1", "kind": "Node", "name": args["Node"]}
        await self._api.create(path, {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target})
        return web.json_response({"Error": ""})

    async def _args(self, verb: str, request: web.Request) -> Json:
        args: Json = await request.json()
        with self._log.open("a") as log:
            log.write(json.dumps({"verb": verb, "args": args}) + "\n")
        return args


def _names(args: Json) -> dict[str, Json | None]:
    """Return the nodes of a request by name; the objects, if it has them."""
    if args["NodeNames"] is not None:
        return dict.fromkeys(args["NodeNames"])
    return {node["metadata"]["name"]: node for node in args["Nodes"]["items"]}


def _order(args: Json, annotation: str) -> str:
    order: str = args["Pod"]["metadata"].get("annotations", {}).get(annotation, "")
    return order


async def application(kubeconfig: Path, log: Path) -> web.Application:
    """Return the service."""
    app = web.Application(client_max_size=1 << 26)
    api = await ApiClient(kubeconfig).__aenter__()
    extender = Extender(api, log)
    for verb in (extender.filter, extender.prioritize, extender.preempt, extender.bind):
        app.router.add_post(f"/{verb.__name__}", verb)

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def close(_: web.Application) -> None:
        await api.__aexit__()

    app.router.add_get("/healthz", healthz)
    app.on_cleanup.append(close)
    return app


def main() -> None:
    port, kubeconfig, log = sys.argv[1:]
    web.run_app(application(Path(kubeconfig), Path(log)), host="127.0.0.1", port=int(port), print=None)


if __name__ == "__main__":
    main()
