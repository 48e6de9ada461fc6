"""Claims that are expensive to allocate: the attempt ends, and other pods are scheduled meanwhile."""

from __future__ import annotations

import random

import pytest

from pyscheduler.cel import Program, compile_selector
from pyscheduler.intree.devices import cel_programs
from pyscheduler.intree.devices.search import Search
from pyscheduler.intree.devices.selectors import SelectedDevice
from pyscheduler.testing import Harness, node
from tests.scenarios.devices import (
    DRIVER,
    Json,
    claim,
    device,
    device_class,
    devices_of,
    exactly,
    message,
    resource_slice,
    user,
)

TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
EXPENSIVE = f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, [0, 1, 2, 3].all(e, a + b + c + d + e >= 0)))))"
"""A legal expression that costs about 200,000 units."""
UNCOUNTED = f"{TEN}.all(a, {TEN}.all(b, !isIP('{'%' * 9000}')))"
"""A legal expression that takes about 1,000,000 steps, which cel-go's cost does not count."""
LONG = " && ".join(["1 == 1"] * 1000)
"""A legal expression of 10,000 characters that is true at once, but takes 0.1 s to compile."""


def selecting(*expressions: str) -> Json:
    """Return a request with selectors."""
    return exactly(selectors=[{"cel": {"expression": each}} for each in expressions])


def nodes_with_devices(count: int, devices: int = 1) -> Harness:
    """Return a cluster; the devices of each node have a model of their own."""
    harness = Harness()
    harness.apply(device_class())
    for i in range(count):
        harness.add(node(f"n{i}"))
        harness.apply(resource_slice(f"n{i}", *(device(f"g{n}", f"model-{i}") for n in range(devices))))
    return harness


@pytest.mark.parametrize("expression", [EXPENSIVE, UNCOUNTED], ids=["cost", "steps"])
def test_expensive_selectors_end_the_attempt(expression: str) -> None:
    harness = nodes_with_devices(20)
    harness.apply(claim("expensive", selecting(expression)))
    harness.apply(user("p", "expensive"))
    harness.apply(claim("plain"))
    harness.apply(user("q", "plain"))
    harness.run()
    assert harness.bindings == {"default/q": harness.bindings["default/q"]}
    assert "timed out trying to allocate devices" in message(harness, "p")
    harness.advance(600)
    assert "default/p" in harness.bindings, "each attempt gets further"
    assert len(devices_of(harness, "expensive")) == 1


def test_compiling_long_selectors_ends_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_and_count(expression: str) -> Program:
        compiled.append(expression)
        return compile_selector(expression)

    monkeypatch.setattr(cel_programs, "compile_selector", compile_and_count)
    harness = nodes_with_devices(1)
    harness.apply(claim("long", selecting(*(f"{LONG} && {i} == {i}" for i in range(32)))))
    harness.apply(user("p", "long"))
    harness.run()
    assert "timed out trying to allocate devices" in message(harness, "p")
    assert len(compiled) <= 21, "a hundredth of the limit for each, and the selector of the class"
    harness.advance(60)
    assert "default/p" in harness.bindings, "each attempt gets further"


def test_compiled_selectors_are_kept_up_to_a_number_of_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cel_programs, "MAX_CHARACTERS", 3 * len(LONG))
    programs = cel_programs.CelPrograms()
    plain = SelectedDevice(DRIVER, False, {}, {})
    for i in range(5):
        assert programs.matches(f"{LONG} && {i} == {i}", plain)
    assert sum(map(len, programs._programs)) <= cel_programs.MAX_CHARACTERS


def hard_claim(name: str) -> Json:
    """Return a claim without a solution, as a graph that three colours do not suffice for."""
    rng = random.Random(1)
    edges = [sorted(rng.sample(range(28), 4)) for _ in range(32)]
    constraints = [{"requests": [f"r{n}" for n in edge], "distinctAttribute": f"{DRIVER}/board"} for edge in edges]
    made = claim(name)
    requests = [{"name": f"r{n}", "exactly": exactly()} for n in range(28)]
    made["spec"]["devices"] = {"requests": requests, "constraints": constraints}
    return made


def test_hopeless_search_is_not_repeated_until_devices_change(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = 0
    run = Search.run

    def count(search: Search) -> bool:
        nonlocal searches
        searches += 1
        return run(search)

    monkeypatch.setattr(Search, "run", count)
    harness = Harness()
    harness.apply(device_class())
    harness.add(node("n1"))
    boards = [{"name": f"g{n}", "attributes": {"board": {"int": n % 4}}} for n in range(120)]
    harness.apply(resource_slice("n1", *boards))
    harness.apply(hard_claim("hard"))
    harness.apply(user("p", "hard"))
    harness.run()
    assert "timed out trying to allocate devices" in message(harness, "p")
    harness.advance(120)
    assert searches == 1
    harness.apply(claim("plain"))
    harness.apply(user("q", "plain"))
    harness.advance(120)
    assert "default/q" in harness.bindings
    assert searches == 4, "two for the other pod, which reserves a device, and a new one"


def test_search_that_took_too_long_on_one_node_does_not_reject_others() -> None:
    harness = Harness()
    harness.apply(device_class())
    for name, boards in (("n1", 4), ("n2", 28)):
        harness.add(node(name))
        numbered = [{"name": f"g{n}", "attributes": {"board": {"int": n % boards}}} for n in range(120)]
        harness.apply(resource_slice(name, *numbered))
    for name, on in (("p", "n1"), ("q", "n2")):
        harness.apply(hard_claim(name))
        harness.apply(user(name, name, nodeSelector={"kubernetes.io/hostname": on}))
        harness.run()
    assert "node n1: timed out trying to allocate devices" in message(harness, "p")
    assert harness.bindings == {"default/q": "n2"}
