"""Claims that are expensive to allocate: the attempt ends, and other pods are scheduled meanwhile."""

from __future__ import annotations

from pyscheduler.testing import Harness, node
from tests.scenarios.devices import claim, device, device_class, devices_of, exactly, message, resource_slice, user

TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
EXPENSIVE = f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, [0, 1, 2, 3].all(e, a + b + c + d + e >= 0)))))"
"""A legal expression that costs about 200,000 units."""


def test_expensive_selectors_end_the_attempt() -> None:
    harness = Harness()
    harness.apply(device_class())
    for i in range(20):
        harness.add(node(f"n{i}"))
        harness.apply(resource_slice(f"n{i}", device("g", f"model-{i}")))
    request = exactly()
    request["selectors"] = [{"cel": {"expression": EXPENSIVE}}]
    harness.apply(claim("expensive", request))
    harness.apply(user("p", "expensive"))
    harness.apply(claim("plain"))
    harness.apply(user("q", "plain"))
    harness.run()
    assert harness.bindings == {"default/q": harness.bindings["default/q"]}
    assert "timed out trying to allocate devices" in message(harness, "p")
    harness.advance(600)
    assert "default/p" in harness.bindings, "each attempt gets further"
    assert len(devices_of(harness, "expensive")) == 1
