"""DeviceClasses and ResourceClaims."""

from __future__ import annotations

from typing import Any

from tests.devices.generator.base import AMOUNTS, CLASSES, GPU, MODELS, NIC, Draw

Manifest = dict[str, Any]
ATTRIBUTES = (
    f"{GPU}/numa",
    f"{GPU}/numa",
    "example.org/root",
    "example.org/numa",
    f"{NIC}/numa",
    "numa",
    f"{GPU}/model",
)


def draw_classes(draw: Draw) -> list[Manifest]:
    """Return all classes."""
    selectors = {
        "any": [],
        "gpu": [f'device.driver == "{GPU}"'],
        "nic": [f'device.driver == "{NIC}"'],
        "large": [f'device.driver == "{GPU}"', f'device.attributes["{GPU}"].model == "a"'],
    }
    classes = []
    for name in CLASSES:
        spec: Manifest = {"selectors": [{"cel": {"expression": each}} for each in selectors[name]]}
        if draw.often("config", 0.6):
            spec["config"] = [_opaque(f"{name}-{n}") for n in range(draw.number(1, 2))]
        classes.append({"metadata": {"name": name}, "spec": spec})
    return classes


def draw_claims(draw: Draw) -> list[Manifest]:
    """Return one to three claims."""
    return [_claim(draw, number) for number in range(draw.of((1, 1, 2, 3)))]


def _claim(draw: Draw, number: int) -> Manifest:
    requests = [_request(draw, f"r{n}") for n in range(draw.of((1, 1, 2, 3)))]
    devices: Manifest = {"requests": requests}
    if draw.often("constraints", 0.8):
        devices["constraints"] = [_constraint(draw, requests) for _ in range(draw.of((1, 1, 2)))]
    if draw.often("config", 0.7):
        devices["config"] = [_config(draw, requests, n) for n in range(draw.number(1, 3))]
    return {"metadata": {"name": f"claim-{number}", "namespace": "default"}, "spec": {"devices": devices}}


def _request(draw: Draw, name: str) -> Manifest:
    if not draw.often("alternatives"):
        exactly = _exactly(draw)
        if draw.often("admin", 0.4):
            exactly["adminAccess"] = draw.of((True, True, True, False))
        return {"name": name, "exactly": exactly}
    return {"name": name, "firstAvailable": [{"name": f"s{n}", **_exactly(draw)} for n in range(draw.number(1, 3))]}


def _exactly(draw: Draw) -> Manifest:
    request: Manifest = {"deviceClassName": draw.of(("any", "any", "any", "gpu", "gpu", "gpu", "nic", "large"))}
    if draw.often("all", 0.4):
        request["allocationMode"] = "All"
    else:
        request["allocationMode"] = "ExactCount"
        request["count"] = draw.of((1, 1, 1, 1, 2, 2, 3, 4))
    if draw.often("selectors", 0.6):
        request["selectors"] = [{"cel": {"expression": _expression(draw)}} for _ in range(draw.of((1, 1, 2)))]
    if draw.often("taints", 0.6):
        request["tolerations"] = [_toleration(draw) for _ in range(draw.number(1, 2))]
    if draw.often("capacity", 0.7):
        request["capacity"] = {"requests": {n: draw.of(AMOUNTS) for n in draw.some(["memory", "cores"], 2)}}
    if draw.often("mistakes", 0.08):
        draw.of((_spoil_class, _spoil_mode, _spoil_selector, _spoil_count, _derive, _exceed_int64))(request)
    return request


def _spoil_class(request: Manifest) -> None:
    request["deviceClassName"] = "" if "selectors" in request else "absent"


def _spoil_mode(request: Manifest) -> None:
    request["allocationMode"] = "Half"


def _spoil_selector(request: Manifest) -> None:
    request["selectors"] = [{}]


def _spoil_count(request: Manifest) -> None:
    request["count"] = 30


def _derive(request: Manifest) -> None:
    request["derivedAttributes"] = [{"name": "x"}]


def _exceed_int64(request: Manifest) -> None:
    request["capacity"] = {"requests": {"memory": "9223372036854775808"}}


def _expression(draw: Draw) -> str:
    forms = [
        f'device.attributes["{GPU}"].model == "{draw.of(MODELS)}"',
        f'device.driver == "{GPU}" && device.attributes["{GPU}"].model == "{draw.of(MODELS)}"',
        f'device.driver == "{draw.of((GPU, NIC))}"',
        f'has(device.attributes["{GPU}"].model)',
        "device.allowMultipleAllocations",
        f'device.attributes["{GPU}"].model != "{draw.of(MODELS)}"',
        f'device.capacity["{GPU}"].memory.compareTo(quantity("{draw.of(AMOUNTS)}")) >= 0',
    ]
    if draw.has("mistakes"):
        return draw.of([*forms, "1", f'device.attributes["{GPU}"].none == 1'])
    # A device without the attribute fails with an error, as those of other drivers.
    return draw.of([forms[1], forms[1], forms[1], *forms[2:5]])


def _toleration(draw: Draw) -> Manifest:
    toleration: Manifest = {"operator": draw.of(("Exists", "Equal", "Equal", "", "Odd"))}
    if draw.maybe(0.8):
        toleration["key"] = draw.of(("broken", "hot"))
    if draw.maybe(0.4):
        toleration["effect"] = draw.of(("NoSchedule", "NoExecute"))
    if draw.maybe(0.4):
        toleration["value"] = draw.of(("yes", "no"))
    if draw.maybe(0.2):
        toleration["tolerationSeconds"] = 5
    return toleration


def _names(draw: Draw, requests: list[Manifest]) -> list[str]:
    names = [each["name"] for each in requests]
    names += [f"{each['name']}/{s['name']}" for each in requests for s in each.get("firstAvailable", ())]
    return draw.some(names, 3)


def _constraint(draw: Draw, requests: list[Manifest]) -> Manifest:
    constraint: Manifest = {draw.of(("matchAttribute", "matchAttribute", "distinctAttribute")): draw.of(ATTRIBUTES)}
    if draw.often("mistakes", 0.04):
        constraint = {}
    if draw.maybe(0.5):
        constraint["requests"] = _names(draw, requests)
    return constraint


def _config(draw: Draw, requests: list[Manifest], number: int) -> Manifest:
    config = _opaque(f"claim-{number}")
    if draw.maybe(0.7):
        config["requests"] = _names(draw, requests)
    return config


def _opaque(name: str) -> Manifest:
    return {"opaque": {"driver": GPU, "parameters": {"name": name}}}
