"""The pages for users of other batch schedulers: their examples run, and their tables are complete."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from pyscheduler.cli.volcano.conf import ACTIONS, parse
from pyscheduler.cli.volcano.draft import Result
from pyscheduler.cli.volcano.statements import ACTIONS as ACTION_STATEMENTS
from pyscheduler.cli.volcano.statements import PLUGINS
from pyscheduler.cli.volcano.translate import _TRANSLATED, translate
from pyscheduler.config import other_schedulers
from pyscheduler.testing import Harness
from tests.docs.pages import EXAMPLES, ROOT, blocks, rows, text_of, words_in_code
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import node, pod

VOLCANO, KUEUE = "docs/from-volcano.md", "docs/from-kueue.md"
SCHEDULER_PLUGINS, YUNIKORN = "docs/from-scheduler-plugins.md", "docs/from-yunikorn.md"
CONFIG = (ROOT / "config" / "batch.yaml").read_text(encoding="utf-8")
Manifest = dict[str, Any]


def example(page: str) -> list[Manifest]:
    """Return the objects of the last example of a page, with the pods of its Jobs instead of these."""
    text = [block.text for block in blocks(page) if block.language == "yaml"][-1]
    return [manifest for each in yaml.safe_load_all(text) for manifest in with_pods(each)]


def with_pods(manifest: Manifest) -> list[Manifest]:
    if manifest["kind"] != "Job":
        return [manifest]
    template, name = manifest["spec"]["template"], manifest["metadata"]["name"]
    return [
        {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": f"{name}-{i}"}}
        for i in range(manifest["spec"]["parallelism"])
    ]


def bound(cluster: Harness) -> dict[str, str]:
    return {key.removeprefix("default/"): name for key, name in cluster.bindings.items()}


def test_pages_list_the_plugins_for_which_a_configuration_names_a_replacement() -> None:
    documented = {name for row in rows(SCHEDULER_PLUGINS, "Plugins") for name in row[0].split(", ")}
    assert documented == other_schedulers.SCHEDULER_PLUGINS.keys()
    assert {*PLUGINS, *_TRANSLATED} == other_schedulers.VOLCANO.keys()


# -- Volcano -----------------------------------------------------------------------------------------------------------


def test_default_configuration_of_volcano_becomes_the_documented_one() -> None:
    [text] = [block.text for block in blocks(VOLCANO) if "KubeSchedulerConfiguration" in block.text]
    default = (EXAMPLES / "volcano.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == translate(parse(default), "volcano").configuration


def test_tables_list_all_actions_and_plugins_of_volcano() -> None:
    actions = {name for row in rows(VOLCANO, "Actions") for name in words_in_code(row[0])}
    assert actions == {*ACTIONS} - {"elect", "reserve"}
    plugins = {name for row in rows(VOLCANO, "Plugins") for name in words_in_code(row[0])}
    assert plugins == {*PLUGINS, *_TRANSLATED} - {"resourcequota", "reservation"}


def test_missing_plugins_and_actions_of_volcano_are_called_missing() -> None:
    for heading, statements in (("Plugins", PLUGINS), ("Actions", ACTION_STATEMENTS)):
        documented = {
            n for row in rows(VOLCANO, heading) for n in words_in_code(row[0]) if row[1].startswith("missing")
        }
        missing = {name for name, (result, _) in statements.items() if result is Result.MISSING}
        assert documented - {"enqueue"} == missing


def test_roles_of_the_example_are_placed_together_and_apart() -> None:
    config = CONFIG.replace("schedulerName: pyscheduler", "schedulerName: volcano")
    config = config.replace(
        "- name: PodGroups ", "- name: TaskTopology\n            weight: 10\n          - name: PodGroups "
    )
    cluster = Cluster(*(node(f"n{i}", 4) for i in range(4)), config=config)
    cluster.submit(*example(VOLCANO))
    placed = bound(cluster)
    assert len(placed) == 6
    servers = {placed["ps-0"], placed["ps-1"]}
    assert len(servers) == 2
    assert {placed[f"worker-{i}"] for i in range(4)} == servers


# -- the others --------------------------------------------------------------------------------------------------------


def test_queue_of_the_kueue_example_borrows_up_to_its_limit_and_gives_back() -> None:
    queues = [each for each in example(KUEUE) if each["kind"] == "Queue"]
    training = [each for each in example(KUEUE) if each["kind"] == "Pod"]
    borrowers = [pod(f"dev-{i}") for i in range(10)]
    for each in borrowers:
        each["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "dev"}
    cluster = Cluster(node("n", 10), *queues)
    cluster.submit(*borrowers)
    assert len(bound(cluster)) == 8
    cluster.submit(*training)
    cluster.advance_to(60)
    assert {each["metadata"]["name"] for each in training} <= bound(cluster).keys()
    assert len(cluster.evictions) == 2


def test_example_of_scheduler_plugins_starts_together() -> None:
    for cpus, count in ((3, 0), (4, 4)):
        cluster = Cluster(node("n", cpus))
        cluster.submit(*example(SCHEDULER_PLUGINS))
        assert len(bound(cluster)) == count


def test_example_of_yunikorn_waits_for_room_of_the_executors() -> None:
    for cpus, count in ((3, 0), (4, 1)):
        cluster = Cluster(node("n", cpus))
        cluster.submit(*example(YUNIKORN))
        assert len(bound(cluster)) == count


def test_message_of_pods_with_annotations_of_yunikorn() -> None:
    driver = pod("driver")
    driver["metadata"]["annotations"] = {"yunikorn.apache.org/task-group-name": "driver"}
    cluster = Cluster(node("n", 4), driver)
    cluster.run()
    cluster.advance(5)
    [message] = re.findall(r"^    (pod default/driver: .*)$", text_of(YUNIKORN), re.M)
    assert cluster.reason("driver") == "SchedulingGated"
    assert set(cluster.message("driver").splitlines()) == {message}


@pytest.mark.parametrize("page", [VOLCANO, KUEUE, SCHEDULER_PLUGINS, YUNIKORN])
def test_pages_have_the_same_sections(page: str) -> None:
    headings = re.findall(r"^## (.+)$", text_of(page), re.M)
    assert headings[-3:] == ["What is better", "Missing", "Example"]
