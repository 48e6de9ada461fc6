"""A fake driver for stories: classes, slices of hollow nodes, claims, and what the scheduler wrote into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from tests.e2e.client import Json
from tests.e2e.story import Story
from tests.e2e.workloads import unscheduled

VERSION = "resource.k8s.io/v1"
CLASSES, SLICES, RULES = (f"/apis/{VERSION}/{kind}" for kind in ("deviceclasses", "resourceslices", "devicetaintrules"))
NO_DEVICE = (
    "0/1 nodes are available: 1 cannot allocate all claims."
    " preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)
"""Message of a pod that finds no device on the only node."""


class Driver:
    """A driver of a story. It publishes devices, and has a class that selects them."""

    def __init__(self, story: Story, suffix: str = "") -> None:
        self.story = story
        self.name = f"{story.namespace}{suffix}.example.com"
        self.claims = story.at(VERSION, "resourceclaims")
        self._suffix = suffix

    async def device_class(self, name: str = "class", expression: str = "", **spec: object) -> str:
        """Create a class of the driver's devices, narrowed by an expression; return its full name."""
        expressions = [f'device.driver == "{self.name}"', *([expression] if expression else [])]
        selectors = [{"cel": {"expression": each}} for each in expressions]
        return await self.story.create(CLASSES, name, {"spec": {"selectors": selectors, **spec}})

    async def publish(self, node: str, *devices: Json | str, pool: str = "", slices: int = 1, **spec: object) -> str:
        """Publish a slice of a node's devices, the only one of its pool; return the pool's name.

        Without a node, `spec` has the place. With more `slices` the pool is incomplete.
        A device is an object, or the name of one without attributes.
        """
        name = self.story.full_name(f"{pool or node}{self._suffix}")
        where: Json = {"nodeName": self.story.full_name(node)} if node else {}
        listed = [{"name": each} if isinstance(each, str) else each for each in devices]
        content: Json = {"devices": listed} if listed else {}
        await self._slice(name, {"pool": _pool(name, slices), **where, **content, **spec})
        return name

    async def publish_counters(self, node: str, sets: Sequence[Json], *devices: Json) -> None:
        """Publish a pool of two slices: the counter sets, and the devices that consume them."""
        name = self.story.full_name(node)
        shared = {"pool": _pool(name, 2), "nodeName": name}
        await self._slice(f"{name}-counters", {**shared, "sharedCounters": list(sets)})
        await self._slice(f"{name}-devices", {**shared, "devices": list(devices)})

    async def _slice(self, name: str, spec: Json) -> None:
        await self.story.create(SLICES, self.story.short(name), {"spec": {"driver": self.name, **spec}})

    async def taint_rule(self, effect: str, **selector: object) -> str:
        """Create a DeviceTaintRule for all devices of the driver, or those selected; return its path."""
        taint = {"key": "example.com/rule", "value": "yes", "effect": effect}
        spec = {"deviceSelector": {"driver": self.name, **selector}, "taint": taint}
        return f"{RULES}/{await self.story.create(RULES, 'rule', {'spec': spec})}"

    async def until_excluded(self, node: str, device_class: str) -> None:
        """Wait until the scheduler allocates no device of a node to a pod without tolerations.

        A scheduler watches each kind by itself, so it may see a pod before an older DeviceTaintRule.
        """
        await self.template("probe", exactly(device_class))
        for name in map("probe-{}".format, count()):
            await self.story.pod(name, uses_template(self.story.spec(on=node), "probe"))
            found = await self.story.until(f"{self.story.pods}/{name}", _is_decided)
            await self.story.delete_pod(name)
            await self.story.until(self.claims, lambda found: not found["items"])
            if "nodeName" not in found["spec"]:
                return

    async def claim(self, name: str, *requests: Json, **devices: object) -> str:
        """Create a claim; return its name. `devices` are the constraints and the configuration."""
        await self.story.api.create(self.claims, {"metadata": {"name": name}, "spec": claim_spec(*requests, **devices)})
        return name

    async def template(self, name: str, *requests: Json) -> None:
        """Create a template of claims."""
        path = self.story.at(VERSION, "resourceclaimtemplates")
        await self.story.api.create(path, {"metadata": {"name": name}, "spec": {"spec": claim_spec(*requests)}})

    async def pod(self, name: str, *claims: str, on: str = "", **fields: object) -> None:
        """Create a pod that uses these claims."""
        await self.story.pod(name, uses(self.story.spec(on=on), *claims) | fields)

    async def inline(self, name: str, template: str, **fields: object) -> None:
        """Create a pod that uses a claim of a template."""
        await self.story.pod(name, uses_template(self.story.spec(), template) | fields)

    async def allocated(self, claim: str, holds: Callable[[Json], object] = bool) -> Json:
        """Wait until a claim is allocated and `holds` is true of its allocation; return it."""

        def is_allocated(found: Json) -> object:
            allocation = found.get("status", {}).get("allocation")
            return allocation and holds(allocation)

        found = await self.story.until(f"{self.claims}/{claim}", is_allocated)
        allocation: Json = found["status"]["allocation"]
        return allocation

    async def results(self, claim: str) -> list[tuple[str, str, str]]:
        """Wait until a claim is allocated; return (request, pool, device) of each result, with short names of pools."""
        results = (await self.allocated(claim))["devices"]["results"]
        return [(each["request"], self.story.short(each["pool"]), each["device"]) for each in results]

    async def until_free(self, claim: str) -> None:
        """Wait until a claim is not allocated, and has no device status and no reservation."""
        await self.story.until(f"{self.claims}/{claim}", lambda found: not found.get("status"))

    async def until_reserved_for(self, claim: str, *pods: str) -> None:
        """Wait until a claim is reserved for exactly these pods."""

        def names(found: Json) -> list[str]:
            return sorted(each["name"] for each in found.get("status", {}).get("reservedFor") or ())

        await self.story.until(f"{self.claims}/{claim}", lambda found: names(found) == sorted(pods))

    async def allocated_again(self, claim: str) -> None:
        """Wait until a claim is allocated and has no device status: deallocation removes it."""

        def is_fresh(found: Json) -> bool:
            status = found.get("status", {})
            return "allocation" in status and not status.get("devices")

        await self.story.until(f"{self.claims}/{claim}", is_fresh)

    async def report(self, claim: str, condition: str) -> None:
        """Write a device condition, as a driver does, for the first device of a claim."""
        allocation = await self.allocated(claim)
        device = {key: allocation["devices"]["results"][0][key] for key in ("driver", "pool", "device")}
        reported = {
            "type": condition,
            "status": "True",
            "reason": "Testing",
            "message": "of the test",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        body = {"status": {"devices": [{**device, "conditions": [reported]}]}}
        await self.story.api.patch(f"{self.claims}/{claim}/status", body)

    def opaque(self, value: str, *requests: str) -> Json:
        """Return a configuration of the driver; of a claim, for these requests."""
        named: Json = {"requests": list(requests)} if requests else {}
        return {**named, "opaque": {"driver": self.name, "parameters": {"value": value}}}


def _is_decided(pod: Json) -> bool:
    """Return True if a pod is bound, or no device was found for it."""
    return "nodeName" in pod["spec"] or "cannot allocate all claims" in unscheduled(pod)


def _pool(name: str, slices: int = 1) -> Json:
    return {"name": name, "generation": 1, "resourceSliceCount": slices}


def claim_spec(*requests: Json, **devices: object) -> Json:
    """Return the spec of a claim."""
    return {"devices": {"requests": list(requests), **devices}}


def exactly(device_class: str, name: str = "r", expression: str = "", **fields: object) -> Json:
    """Return a request for one device of a class, or `count`."""
    selectors: Json = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    return {"name": name, "exactly": {"deviceClassName": device_class, **selectors, **fields}}


def first_available(*classes: str, name: str = "r", counts: Sequence[int] = ()) -> Json:
    """Return a request with alternatives: s1, s2, and so on."""
    counted = [{"count": count} for count in counts] or [{}] * len(classes)
    listed = [
        {"name": f"s{i}", "deviceClassName": of, **count}
        for i, (of, count) in enumerate(zip(classes, counted, strict=True), 1)
    ]
    return {"name": name, "firstAvailable": listed}


def uses(spec: Json, *claims: str) -> Json:
    """Return a pod's spec that uses these claims, in its first container."""
    spec["containers"][0]["resources"]["claims"] = [{"name": each} for each in claims]
    return {**spec, "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims]}


def uses_template(spec: Json, template: str) -> Json:
    """Return a pod's spec that uses a claim of a template, in all its containers."""
    for container in spec["containers"]:
        container["resources"]["claims"] = [{"name": "device"}]
    return {**spec, "resourceClaims": [{"name": "device", "resourceClaimTemplateName": template}]}


def attributes(**values: str | bool) -> Json:
    """Return attributes of a device: strings and booleans."""
    return {key: {"bool" if isinstance(value, bool) else "string": value} for key, value in values.items()}


def quantities(amounts: Mapping[str, str]) -> Json:
    """Return counters or capacities with these amounts."""
    return {key: {"value": value} for key, value in amounts.items()}


def configs(allocation: Json) -> list[tuple[str, list[str], str]]:
    """Return source, requests and value of each configuration that the scheduler copied into an allocation."""
    return [
        (each["source"], each.get("requests", []), each["opaque"]["parameters"]["value"])
        for each in allocation["devices"].get("config", ())
    ]
