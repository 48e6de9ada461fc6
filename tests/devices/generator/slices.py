"""ResourceSlices: pools in all states, devices with everything that a request can select."""

from __future__ import annotations

from typing import Any

from tests.devices.generator.base import AMOUNTS, DRIVERS, EFFECTS, GPU, MODELS, Draw

Manifest = dict[str, Any]


def draw_slices(draw: Draw) -> list[Manifest]:
    """Return the slices of one to three pools, in random order."""
    slices: list[Manifest] = []
    for number in range(draw.number(1, 3)):
        driver = GPU if draw.maybe(0.7) else draw.of(DRIVERS)
        slices += _pool(draw, driver, f"pool-{number}" if draw.maybe(0.9) else "pool-0")
    for index in draw.random.sample(range(len(slices)), len(slices)):
        slices[index]["metadata"] = {"name": f"slice-{index}"}
    draw.random.shuffle(slices)
    if len({_key(each) for each in slices}) < len(slices):
        return [each for n, each in enumerate(slices) if _key(each) not in map(_key, slices[:n])]
    return slices


def _key(slice_: Manifest) -> str:
    return str(slice_["metadata"]["name"])


def _pool(draw: Draw, driver: str, name: str) -> list[Manifest]:
    generation = draw.number(1, 3)
    slices = _generation(draw, driver, name, generation)
    if draw.often("generations", 0.6):
        older = _generation(draw, driver, name, generation - draw.of((1, 1, 0)))
        slices += older[: draw.number(1, len(older))]
    return slices


def _generation(draw: Draw, driver: str, name: str, generation: int) -> list[Manifest]:
    number = draw.of((1, 1, 2, 2, 3))
    slices = []
    for index in range(number):
        spec: Manifest = {"driver": driver, **_nodes(draw)}
        spec["devices"] = [_device(draw, f"dev-{index}-{d}", spec) for d in range(draw.number(0, 6))]
        if draw.often("invalid", 0.1) and index:
            spec["devices"].append(_device(draw, "dev-0-0", spec))
        slices.append({"metadata": {}, "spec": spec})
    if draw.has("counters"):
        slices += _counter_slices(draw, driver)
    count = len(slices) + (draw.of((-1, 1, 1)) if draw.often("invalid", 0.2) else 0)
    for each in slices:
        each["spec"]["pool"] = {"name": name, "generation": generation, "resourceSliceCount": count}
    return slices


def _counter_slices(draw: Draw, driver: str) -> list[Manifest]:
    sets: list[Manifest] = [
        {"name": name, "counters": {c: {"value": draw.of(("2", "3", "4", "2Gi"))} for c in ("memory", "slots")}}
        for name in ("set-0", "set-1")
    ]
    if draw.often("invalid", 0.15):
        sets[1]["name"] = draw.of(("set-0", "set-2"))
    if draw.often("invalid", 0.1):
        del sets[0]["counters"]["slots"]
    nodes = {"nodeName": draw.of(("node-1", "node-2"))} if draw.maybe(0.2) else {"allNodes": True}
    return [{"metadata": {}, "spec": {"driver": driver, **nodes, "sharedCounters": sets}}]


def _nodes(draw: Draw) -> Manifest:
    if draw.often("perDevice", 0.6):
        return {"perDeviceNodeSelection": True}
    if draw.often("nodes", 0.6):
        return draw.of((_here, _here, _elsewhere, _everywhere, _selected, _unknown))(draw)
    return {"nodeName": "node-1"}


def _here(_: Draw) -> Manifest:
    return {"nodeName": "node-1"}


def _elsewhere(_: Draw) -> Manifest:
    return {"nodeName": "node-2"}


def _everywhere(_: Draw) -> Manifest:
    return {"allNodes": True}


def _unknown(draw: Draw) -> Manifest:
    return draw.of(({}, {"allNodes": False}))


def _selected(draw: Draw) -> Manifest:
    requirements = [
        {"key": "zone", "operator": "In", "values": draw.some(["a", "b", "c"], 2)},
        {"key": "disk", "operator": draw.of(("Exists", "Exists", "DoesNotExist"))},
        {"key": "zone", "operator": "In", "values": ["a", "b"]},
        {"key": "zone", "operator": "In", "values": ["b", "a"]},
    ]
    term: Manifest = {"matchExpressions": draw.some(requirements, 2)}
    if draw.maybe(0.3):
        name = draw.of(("node-1", "node-1", "node-2"))
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    terms = [term]
    if draw.often("mistakes", 0.1):
        terms.append({"matchExpressions": [draw.of(requirements)]})
    return {"nodeSelector": {"nodeSelectorTerms": terms if draw.maybe(0.98) else []}}


def _device(draw: Draw, name: str, spec: Manifest) -> Manifest:
    device: Manifest = {"name": name, "attributes": _attributes(draw, spec["driver"])}
    if "perDeviceNodeSelection" in spec:
        device.update(draw.of((_here, _here, _elsewhere, _everywhere, _selected, _unknown))(draw))
    if draw.often("taints", 0.4):
        device["taints"] = [draw_taint(draw) for _ in range(draw.number(1, 2))]
    if draw.often("binding", 0.4):
        device["bindingConditions"] = draw.of((["ready"], ["ready", "attached"], []))
        device["bindingFailureConditions"] = ["broken"]
    if draw.often("binding", 0.2):
        device["bindsToNode"] = draw.of((True, True, False))
    if draw.often("shared", 0.6):
        device["allowMultipleAllocations"] = draw.of((True, True, True, False))
    if draw.has("capacity"):
        device["capacity"] = _capacities(draw)
    if draw.often("counters", 0.8):
        device["consumesCounters"] = [_consumption(draw, name) for name in draw.some(["set-0", "set-1"], 2)]
    return device


def _attributes(draw: Draw, driver: str) -> Manifest:
    attributes: Manifest = {"model": {"string": draw.of(MODELS)}}
    if draw.has("attributes"):
        attributes[draw.of(("numa", "numa", f"{driver}/numa", "example.org/numa"))] = _value(draw)
        if draw.maybe(0.7):
            attributes["example.org/root"] = {"string": draw.of(("r0", "r1", "r2"))}
        if draw.maybe(0.1):
            attributes["numa"], attributes[f"{driver}/numa"] = {"int": 0}, {"int": draw.number(0, 1)}
    if draw.often("mistakes", 0.08):
        del attributes["model"]
    return attributes


def _value(draw: Draw) -> Manifest:
    kinds: tuple[Manifest, ...] = (
        {"int": draw.number(0, 1)},
        {"int": draw.number(0, 1)},
        {"int": draw.number(0, 1)},
        {"string": draw.of(("0", "1"))},
        {"bool": draw.maybe(0.5)},
        {"version": draw.of(("1.0.0", "1.0.0+x"))},
    )
    return {} if draw.often("mistakes", 0.1) else draw.of(kinds)


def draw_taint(draw: Draw) -> Manifest:
    """Return a taint of a device."""
    taint = {"key": draw.of(("broken", "hot")), "effect": draw.of(EFFECTS[:2] * 3 + EFFECTS)}
    if draw.maybe(0.4):
        taint["value"] = draw.of(("yes", "no"))
    return taint


def _consumption(draw: Draw, name: str) -> Manifest:
    consumption: Manifest = {
        "counterSet": name,
        "counters": {c: {"value": draw.of(("1", "1", "2", "500m", "1Gi"))} for c in draw.some(["memory", "slots"], 2)},
    }
    if draw.often("groups", 0.05):
        consumption["compatibilityGroups"] = ["x"]
    return consumption


def _capacities(draw: Draw) -> Manifest:
    return {name: _capacity(draw) for name in draw.some(["memory", "cores"], 2)}


def _capacity(draw: Draw) -> Manifest:
    capacity: Manifest = {"value": draw.of(AMOUNTS)}
    if not draw.often("policies", 0.7):
        return capacity
    policy: Manifest = {}
    if draw.maybe(0.6):
        policy["default"] = draw.of(AMOUNTS[:5])
    if draw.maybe(0.4):
        policy["validValues"] = sorted({draw.of(("1", "2", "3", "4")) for _ in range(3)})
    elif draw.maybe(0.8):
        policy["validRange"] = _range(draw)
    capacity["requestPolicy"] = policy
    return capacity


def _range(draw: Draw) -> Manifest:
    valid: Manifest = {"min": draw.of(("1", "500m", "2", "1Gi", "-1" if draw.often("mistakes", 0.1) else "1"))}
    if draw.maybe(0.5):
        valid["max"] = draw.of(("3", "4", "2500m", "3Gi"))
    if draw.maybe(0.6):
        huge = "9223372036854775807" if draw.often("mistakes", 0.2) else "1"
        valid["step"] = draw.of(("1", "2", "250m", "300m", "1Mi", "100u", "3", huge))
    elif draw.maybe(0.2):
        del valid["min"]
    return valid
