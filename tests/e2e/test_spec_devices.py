"""Kubernetes' specs of dynamic resource allocation: claims, templates, alternatives, configuration, admin access.

A fake driver publishes the slices of hollow nodes. Claims of templates are created by the real controller, and
claims are released by it. docs/specs.md maps specs to tests.
"""

from __future__ import annotations

import pytest

from tests.e2e.client import ApiError, Json
from tests.e2e.devices import (
    CLASSES,
    NO_DEVICE,
    VERSION,
    Driver,
    attributes,
    claim_spec,
    configs,
    exactly,
    first_available,
    uses_template,
)
from tests.e2e.story import NAME, Story

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADMIN = "resource.kubernetes.io/admin-access"
LABEL_MISSING = f"admin access to devices requires the `{ADMIN}: true` label on the containing namespace"


async def one_device(story: Story) -> tuple[Driver, str]:
    """Create a node with one device; return its driver and the driver's class."""
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", "gpu")
    return driver, await driver.device_class()


async def test_devices_are_used_again_after_their_pods_end(story: Story) -> None:
    driver, of = await one_device(story)
    await driver.template("gpu", exactly(of))
    names = {"p1", "p2", "p3"}
    for name in sorted(names):
        await driver.inline(name, "gpu")
    while names:
        found = await story.until(
            story.pods, lambda found: [each for each in found["items"] if each["spec"].get("nodeName")]
        )
        [name] = [each["metadata"]["name"] for each in found["items"] if each["spec"].get("nodeName")]
        await story.delete_pod(name)
        names.remove(name)
        await story.exactly(names)


async def test_claim_is_shared_by_pods(story: Story) -> None:
    driver, of = await one_device(story)
    await driver.claim("c", exactly(of))
    for name in ("p1", "p2", "p3"):
        await driver.pod(name, "c")
    assert await story.places(3) == {"a": 3}
    await driver.until_reserved_for("c", "p1", "p2", "p3")
    allocation = await driver.allocated("c")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [story.full_name("a")]}]}
    assert allocation["nodeSelector"] == {"nodeSelectorTerms": [term]}
    claim = await story.api.get(f"{driver.claims}/c")
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]


async def test_claim_is_shared_by_one_pod_after_the_other(story: Story) -> None:
    driver, of = await one_device(story)
    await driver.claim("c", exactly(of))
    for name in ("p1", "p2"):
        await driver.pod(name, "c")
        await story.bound(name)
        await driver.until_reserved_for("c", name)
        await story.delete_pod(name)
        await driver.until_free("c")


async def test_pod_is_retried_after_its_class_is_created(story: Story) -> None:
    driver, _ = await one_device(story)
    await driver.template("gpu", exactly(story.full_name("late")))
    await driver.inline("p", "gpu")
    message = (
        "0/1 nodes are available: request r: device class {0} does not exist. preemption: 0/1 nodes are"
        " available: 1 Preemption is not helpful for scheduling."
    )
    await story.unschedulable("p", message.format(story.full_name("late")).partition(": request")[0])
    await driver.device_class("late")
    assert await story.bound("p") == "a"


async def test_pod_is_retried_after_its_class_is_updated(story: Story) -> None:
    driver, _ = await one_device(story)
    of = await driver.device_class("narrow", expression="false")
    await driver.template("gpu", exactly(of))
    await driver.inline("p", "gpu")
    await story.unschedulable_with("p", NO_DEVICE)
    selectors = [{"cel": {"expression": f'device.driver == "{driver.name}"'}}]
    await story.api.patch(f"{CLASSES}/{of}", {"spec": {"selectors": selectors}})
    assert await story.bound("p") == "a"


async def test_pod_is_retried_after_its_slice_is_published(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")
    await driver.template("gpu", exactly(await driver.device_class()))
    await driver.inline("p", "gpu")
    await story.unschedulable_with("p", NO_DEVICE)
    await driver.publish("a", "gpu")
    assert await story.bound("p") == "a"


async def test_pod_waits_for_its_claim_to_be_created(story: Story) -> None:
    driver, of = await one_device(story)
    await driver.pod("p", "c")
    await story.pod("other")
    assert await story.bound("other") == "a"
    found = await story.api.get(f"{story.pods}/p")
    assert "conditions" not in found["status"], "it is gated, not unschedulable"
    await driver.claim("c", exactly(of))
    assert await story.bound("p") == "a"


async def test_pod_runs_without_the_claim_that_its_status_excludes(story: Story) -> None:
    driver, _ = await one_device(story)
    await driver.inline("p", "missing")
    await story.api.patch(f"{story.pods}/p/status", {"status": {"resourceClaimStatuses": [{"name": "device"}]}})
    assert await story.bound("p") == "a"


async def test_claim_of_a_template_is_shared_by_containers(story: Story) -> None:
    driver, of = await one_device(story)
    await driver.template("gpu", exactly(of))
    spec = story.spec()
    spec["containers"] += [{**spec["containers"][0], "name": "second", "resources": {}}]
    spec["initContainers"] = [
        {"name": "first", "image": "pause:1", "resources": {"claims": [{"name": "device"}]}},
    ]
    await story.pod("p", uses_template(spec, "gpu"))
    assert await story.bound("p") == "a"
    [claim] = (await story.api.get(driver.claims))["items"]
    assert claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] == "device"
    assert await driver.results(claim["metadata"]["name"]) == [("r", "a", "gpu")]


async def test_name_of_a_claim_of_a_template_is_truncated(story: Story) -> None:
    driver, of = await one_device(story)
    await driver.template("gpu", exactly(of))
    name = "p" * 63
    spec = uses_template(story.spec(), "gpu")
    spec["resourceClaims"][0]["name"] = spec["containers"][0]["resources"]["claims"][0]["name"] = "c" * 63
    await story.pod(name, spec)
    assert await story.bound(name) == "a"


async def test_claim_is_deallocated_after_its_pod_is_deleted(story: Story) -> None:
    driver, of = await one_device(story)
    await driver.claim("c", exactly(of))
    await driver.pod("p", "c")
    await story.bound("p")
    await story.delete_pod("p")
    await driver.until_free("c")
    await story.until(f"{driver.claims}/c", lambda found: "finalizers" not in found["metadata"])


async def test_pod_uses_an_allocated_and_a_new_claim(story: Story) -> None:
    driver = Driver(story)
    for name in ("a", "b"):
        await story.node(name)
        await driver.publish(name, "one", "two")
    of = await driver.device_class()
    await driver.claim("first", exactly(of))
    await driver.claim("second", exactly(of))
    await driver.pod("p1", "first", on="b")
    assert await story.bound("p1") == "b"
    await driver.pod("p2", "first", "second")
    assert await story.bound("p2") == "b"
    assert await driver.results("second") == [("r", "b", "two")]
    await driver.until_reserved_for("first", "p1", "p2")


@pytest.mark.parametrize("errors", ["one node", "all nodes"])
async def test_error_of_an_expression_on_one_node_keeps_the_pod_pending(story: Story, errors: str) -> None:
    driver = Driver(story)
    for name, known in (("a", attributes(healthy=True, exists=True)), ("b", attributes(healthy=False))):
        await story.node(name)
        await driver.publish(name, {"name": "gpu", "attributes": known})
    attribute = "exists" if errors == "one node" else "nowhere"
    await driver.template(
        "gpu", exactly(await driver.device_class(), expression=f'device.attributes["{driver.name}"].{attribute}')
    )
    await driver.inline("p", "gpu")
    message = await story.unschedulable("p", "CEL runtime error")
    assert f"no such key: {attribute}. consider using CEL optional chaining" in message


async def test_each_node_runs_as_many_pods_as_it_has_devices(story: Story) -> None:
    driver = Driver(story)
    for name in ("a", "b", "c"):
        await story.node(name)
        await driver.publish(name, "one", "two")
    await driver.template("gpu", exactly(await driver.device_class()))
    for i in range(7):
        await driver.inline(f"p{i}", "gpu")
    found = await story.until(
        story.pods, lambda found: sum(1 for each in found["items"] if each["spec"].get("nodeName")) == 6
    )
    [last] = [each["metadata"]["name"] for each in found["items"] if not each["spec"].get("nodeName")]
    await story.unschedulable_with(last, NO_DEVICE.replace("0/1", "0/3").replace(" 1 ", " 3 "))
    claims = (await story.api.get(driver.claims))["items"]
    allocations = [each["status"]["allocation"] for each in claims if "allocation" in each.get("status", {})]
    results = [each["devices"]["results"] for each in allocations]
    used = [(each["pool"], each["device"]) for [each] in results]
    assert len(set(used)) == len(used) == 6


async def test_all_devices_of_a_node_are_allocated(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", "one", "two", "three")
    of = await driver.device_class()
    await driver.claim("all", exactly(of, allocationMode="All"))
    await driver.pod("p", "all")
    assert await story.bound("p") == "a"
    assert await driver.results("all") == [("r", "a", "one"), ("r", "a", "two"), ("r", "a", "three")]
    await driver.claim("more", exactly(of))
    await driver.pod("q", "more")
    await story.unschedulable_with("q", NO_DEVICE)


async def test_incomplete_pool_is_not_used(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", "gpu", slices=2)
    await driver.claim("c", exactly(await driver.device_class()))
    await driver.pod("p", "c")
    await story.unschedulable_with("p", NO_DEVICE)


async def test_first_alternative_that_can_be_satisfied_is_selected(story: Story) -> None:
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", "one", "two")
    of = await driver.device_class()
    config = [driver.opaque("parent", "r"), driver.opaque("three", "r/s1"), driver.opaque("two", "r/s2")]
    await driver.claim("c", first_available(of, of, of, counts=(3, 2, 1)), config=config)
    await driver.pod("p", "c")
    assert await story.bound("p") == "a"
    assert await driver.results("c") == [("r/s2", "a", "one"), ("r/s2", "a", "two")]
    assert configs(await driver.allocated("c")) == [("FromClaim", [], "parent"), ("FromClaim", [], "two")]


async def test_alternative_is_chosen_by_constraints(story: Story) -> None:
    await story.node("a")
    first, second = Driver(story, "-1"), Driver(story, "-2")
    both = [("one", "1.0.0", "bar"), ("two", "2.0.0", "foo")]
    of = "dra.example.com"
    await first.publish(
        "a",
        *({"name": name, "attributes": _of_vendor(of, version=v, root=root)} for name, v, root in both),
    )
    await second.publish("a", {"name": "nic", "attributes": _of_vendor(of, version="1.0.0", root="foo")})
    one, two = await first.device_class("one"), await second.device_class("two")
    constraints = [
        {"requests": ["r", "n"], "matchAttribute": f"{of}/version"},
        {"requests": ["r/s1", "n"], "matchAttribute": f"{of}/root"},
    ]
    await first.claim("c", first_available(one, one), exactly(two, "n"), constraints=constraints)
    await first.pod("p", "c")
    assert await story.bound("p") == "a"
    assert await first.results("c") == [("r/s2", "a-1", "one"), ("n", "a-2", "nic")]


def _of_vendor(domain: str, **values: str) -> Json:
    return {f"{domain}/{key}": value for key, value in attributes(**values).items()}


async def test_configuration_of_selected_requests_is_copied(story: Story) -> None:
    await story.node("a")
    first, second = Driver(story, "-1"), Driver(story, "-2")
    await first.publish("a", "gpu")
    await second.publish("a", "nic")
    one = await first.device_class("one", config=[first.opaque("class")])
    two = await second.device_class("two")
    config = [
        first.opaque("r", "r"),
        first.opaque("s1", "r/s1"),
        first.opaque("s2", "r/s2"),
        second.opaque("n", "n"),
        first.opaque("both", "r", "n"),
    ]
    await first.claim("c", first_available(one, one, counts=(20, 1)), exactly(two, "n"), config=config)
    await first.pod("p", "c")
    assert await story.bound("p") == "a"
    assert await first.results("c") == [("r/s2", "a-1", "gpu"), ("n", "a-2", "nic")]
    assert configs(await first.allocated("c")) == [
        ("FromClass", ["r/s2"], "class"),
        ("FromClaim", ["r"], "r"),
        ("FromClaim", ["r/s2"], "s2"),
        ("FromClaim", ["n"], "n"),
        ("FromClaim", [], "both"),
    ]


async def test_node_of_the_best_alternatives_is_chosen(story: Story) -> None:
    names = ("n1", "n2", "n3")
    classes = {}
    for name in ("n0", *names):
        driver = Driver(story, f"-{name}")
        await story.node(name)
        await driver.publish(name, "one", "two")
        classes[name] = await driver.device_class(name)
    await driver.claim("single", first_available(*(classes[name] for name in ("n0", "n3", "n1"))))
    await driver.pod("p1", "single")
    assert await story.bound("p1") == "n0"
    await driver.claim("c1", first_available(*(classes[name] for name in names)))
    await driver.claim("c2", first_available(*(classes[name] for name in ("n2", "n3", "n1"))))
    await driver.pod("p2", "c1", "c2")
    assert await story.bound("p2") == "n2", "ranks 2 and 1, against 1 and 3, and 3 and 2"
    assert [request for request, _, _ in await driver.results("c1")] == ["r/s2"]
    assert [request for request, _, _ in await driver.results("c2")] == ["r/s1"]


async def test_admin_access_needs_a_labelled_namespace_and_shares_devices(story: Story) -> None:
    driver, of = await one_device(story)
    admin = exactly(of, adminAccess=True)
    for plural, spec in (
        ("resourceclaims", claim_spec(admin)),
        ("resourceclaimtemplates", {"spec": claim_spec(admin)}),
    ):
        with pytest.raises(ApiError, match=LABEL_MISSING):
            await story.api.create(story.at(VERSION, plural), {"metadata": {"name": "no"}, "spec": spec})
    await driver.claim("used", exactly(of))
    await driver.pod("user", "used")
    await story.bound("user")
    await story.api.patch(f"/api/v1/namespaces/{story.namespace}", {"metadata": {"labels": {ADMIN: "true"}}})
    await story.until(f"/api/v1/namespaces/{story.namespace}", lambda found: ADMIN in found["metadata"]["labels"])
    await driver.template("monitor", admin)
    labels = {"app": "monitor"}
    spec = {**uses_template(story.spec(), "monitor"), "schedulerName": NAME}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"metadata": {"name": "monitor"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    await story.api.create(story.at("apps/v1", "daemonsets"), body)
    assert await story.places(1, "app=monitor") == {"a": 1}
    [monitor] = [
        each["status"]["allocation"]
        for each in (await story.api.get(driver.claims))["items"]
        if each["metadata"]["name"] != "used"
    ]
    [result] = monitor["devices"]["results"]
    assert (result["device"], result["adminAccess"]) == ("gpu", True)
    await driver.claim("more", exactly(of))
    await driver.pod("waiting", "more")
    await story.unschedulable_with("waiting", NO_DEVICE)
