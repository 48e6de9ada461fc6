"""Lists in the pages equal those of the code: plugins, extension points, settings, metrics, permissions."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import yaml

from pyscheduler import intree
from pyscheduler.api import Plugin, Reads
from pyscheduler.cli import compat
from pyscheduler.config.load import loads
from pyscheduler.core.framework.registry import POINTS
from pyscheduler.core.queue import labels
from pyscheduler.intree.resource_claims import metrics as device_metrics
from pyscheduler.shell.counting import Metric
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.prometheus_text import to_metric_family
from tests.docs.pages import PAGES, ROOT, rows, text_of, words_in_code


@pytest.mark.parametrize(
    ("page", "limit"),
    [("README.md", 150), ("ARCHITECTURE.md", 120), ("docs/plugins.md", 300), ("docs/operations.md", 150)],
)
def test_pages_stay_short(page: str, limit: int) -> None:
    assert text_of(page).count("\n") <= limit


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/adr/")])
def test_decision_records_have_one_form(page: str) -> None:
    text = text_of(page)
    assert re.findall(r"^## (.+)$", text, re.M) == ["Context", "Decision", "Consequences"]
    assert text.startswith(f"# {int(page.removeprefix('docs/adr/')[:4])}. ")
    assert text.count("\n") <= 30


def names(cell: str) -> set[str]:
    return {name.strip() for name in cell.split(",")}


def test_readme_lists_the_plugins() -> None:
    documented = {row[0]: row[1] for row in rows("README.md", "What works, and what does not yet")}
    assert names(documented["kube-scheduler's plugins"]) == {plugin.name for plugin in intree.PLUGINS}


def test_guide_lists_every_extension_point_with_its_methods() -> None:
    documented: dict[str, list[str]] = {}
    point = ""
    for cells in rows("docs/plugins.md", "The extension points"):
        if cells[0]:
            point = cells[0]
            assert words_in_code(cells[1]) == [POINTS[point].__name__]
        documented.setdefault(point, []).extend(words_in_code(cells[2]))
    assert list(documented) == list(POINTS)
    for point, base in POINTS.items():
        assert set(documented[point]) == set(signatures(base)), point


def signatures(base: type[Plugin]) -> list[str]:
    """Return the methods that a base class adds, as in the guide."""
    own = {name: method for name, method in vars(base).items() if inspect.isfunction(method) and name[0] != "_"}
    return [f"{name}({', '.join(list(inspect.signature(method).parameters)[1:])})" for name, method in own.items()]


def test_guide_lists_every_level_of_reads() -> None:
    heading = "`reads`: what a result depends on"
    assert [words_in_code(row[0])[0] for row in rows("docs/plugins.md", heading)] == [level.name for level in Reads]


def test_metrics_page_lists_each_with_its_type_and_labels() -> None:
    documented: dict[str, tuple[str, set[str]]] = {}
    for name, kind, label_names, _ in rows("docs/metrics.md", "What is served"):
        documented[words_in_code(name)[0]] = (kind, names(label_names) - {""})
    process = {name for name in documented if name.startswith("process_")}
    assert process == {"process_cpu_seconds_total"}
    metrics = Metrics()
    for metric in device_metrics.ALL:
        metrics.observe(metric, metric.labels, 1)
    assert {name: documented[name] for name in documented.keys() - process - {"pyscheduler_build_info"}} == dict(
        map(exposed, metrics.all)
    )


def exposed(metric: Metric) -> tuple[str, tuple[str, set[str]]]:
    """Return a metric's name in Prometheus, its type and its labels."""
    family = to_metric_family(metric)
    return family.name + ("_total" if family.type == "counter" else ""), (family.type, set(metric.labels))


CONFIG_WITH_WARNINGS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 50
parallelism: 4
"""


def test_metrics_page_lists_our_own_events() -> None:
    """Those of core/queue/labels.py are called ours there; the others are made where they happen."""
    ours = re.findall(r'^\w+ = "(\w+)"\n"""Ours:', Path(labels.__file__).read_text(), re.MULTILINE)
    assert len(ours) >= 5
    page = dict(rows("docs/metrics.md", "Metrics with another meaning here"))
    documented = set(words_in_code(page["`scheduler_queue_incoming_pods_total`"]))
    assert {*ours, "SucceededPodAdd", "TimeElapsed"} <= documented


def test_operations_page_lists_every_flag_that_is_ignored_or_rejected() -> None:
    documented = words_in_code(" ".join(row[0] for row in rows("docs/operations.md", "Replace kube-scheduler")))
    groups = ("metric", "http2", "log-", "permit-")  # the page names these, not each flag
    names = [flag.name for flag in compat.IGNORED if not any(group in flag.name for group in groups)]
    rejected = [name.replace("_", "-") for name in compat._UNSUPPORTED]
    assert {f"--{name}" for name in (*names, *rejected)} <= set(documented)


def test_configuration_page_lists_every_setting_that_warns() -> None:
    documented = [words_in_code(row[0])[0] for row in rows("docs/configuration.md", "What is accepted with a warning")]
    assert sorted(documented) == sorted(warning.split(":")[0] for warning in loads(CONFIG_WITH_WARNINGS).warnings)


def test_operations_page_lists_every_permission() -> None:
    documented = " ".join(row[0] for row in rows("docs/operations.md", "RBAC"))
    for file in ("cluster-role.yaml", "lease-role.yaml"):
        for role in yaml.safe_load_all((ROOT / "manifests" / "base" / file).read_text()):
            for rule in role.get("rules", ()):
                for word in (*rule["resources"], *rule["verbs"]):
                    assert word in documented, f"{file} allows {rule['verbs']} on {rule['resources']}"
