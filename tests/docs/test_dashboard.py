"""The dashboard asks for metrics that the scheduler serves, by labels that they have, and Grafana can load it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from pyscheduler.shell.metrics import Metrics
from tests.docs.pages import ROOT

DASHBOARD: dict[str, Any] = json.loads((ROOT / "manifests" / "dashboard" / "pyscheduler.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
QUERIES = [pytest.param(t["expr"], id=f"{p['title']} {t['refId']}") for p in PANELS for t in p["targets"]]
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",)}
OF_THE_TARGET = {"le", "instance", "job", "version"}
"""Labels that Prometheus adds, that every histogram has, and that the build's metric has."""
WIDTH = 24
JOB = 'job=~"$job"'


def served() -> Iterator[str]:
    """The names of all series, as queries have them."""
    for family in Metrics().registry.collect():
        yield from (family.name + suffix for suffix in SUFFIXES.get(family.type, ("",)))


def labels() -> set[str]:
    """The labels of all metrics of ours."""
    metrics = vars(Metrics()).values()
    several = {label for metric in metrics for label in getattr(metric, "labels", ())}
    return several | {getattr(metric, "label", "") for metric in metrics} | OF_THE_TARGET


def selected(query: str) -> list[tuple[str, str]]:
    """Each metric of a query with what stands in its braces."""
    return re.findall(r"(\w+)\{([^}]*)\}", query)


@pytest.mark.parametrize("query", QUERIES)
def test_each_query_asks_for_what_is_served(query: str) -> None:
    asked = selected(query)
    assert asked
    assert [name for name, _ in asked if name not in set(served())] == []
    assert all(JOB in braces for _, braces in asked), "or it shows the processes of others too"


@pytest.mark.parametrize("query", QUERIES)
def test_each_query_groups_by_labels_that_there_are(query: str) -> None:
    named = {label.strip() for by in re.findall(r"by \(([^)]*)\)", query) for label in by.split(",")}
    named |= {label for _, braces in selected(query) for label in re.findall(r"(\w+)=", braces)}
    assert named <= labels()
    assert query.count("(") == query.count(")")


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_each_panel_has_what_grafana_needs(panel: dict[str, Any]) -> None:
    assert {"id", "type", "title", "description", "gridPos", "datasource", "fieldConfig", "targets"} <= panel.keys()
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= WIDTH
    refs = [target["refId"] for target in panel["targets"]]
    assert len(set(refs)) == len(refs) > 0
    named = re.findall(r"\{\{(\w+)\}\}", "".join(target["legendFormat"] for target in panel["targets"]))
    assert all(re.search(rf"by \([^)]*\b{name}\b", target["expr"]) for target in panel["targets"] for name in named)


def test_the_dashboard_has_what_grafana_needs() -> None:
    assert {"uid", "title", "schemaVersion", "version", "time", "refresh", "templating"} <= DASHBOARD.keys()
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "job"]
    assert "id" not in DASHBOARD, "Grafana gives that itself"


def test_panels_do_not_cover_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        grid = panel["gridPos"]
        across, down = range(grid["x"], grid["x"] + grid["w"]), range(grid["y"], grid["y"] + grid["h"])
        cells = {(x, y) for x in across for y in down}
        assert not taken & cells, panel["title"]
        taken |= cells
