"""The dashboard queries metrics and labels that exist, and Grafana can load it."""

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
COMMON_LABELS = {"le", "instance", "job", "version"}
"""Labels that Prometheus adds, and those of histograms and of the build info."""
WIDTH = 24
JOB = 'job=~"$job"'


def series_names() -> Iterator[str]:
    """Yield the names of all series, as in queries."""
    for family in Metrics().registry.collect():
        yield from (family.name + suffix for suffix in SUFFIXES.get(family.type, ("",)))


def labels() -> set[str]:
    """Return the labels of all our metrics."""
    metrics = vars(Metrics()).values()
    several = {label for metric in metrics for label in getattr(metric, "labels", ())}
    return several | {getattr(metric, "label", "") for metric in metrics} | COMMON_LABELS


def selectors(query: str) -> list[tuple[str, str]]:
    """Return each metric of a query with its label matchers."""
    return re.findall(r"(\w+)\{([^}]*)\}", query)


@pytest.mark.parametrize("query", QUERIES)
def test_query_uses_existing_metrics(query: str) -> None:
    found = selectors(query)
    assert found
    assert [name for name, _ in found if name not in set(series_names())] == []
    assert all(JOB in matchers for _, matchers in found), "without the job it shows other processes too"


@pytest.mark.parametrize("query", QUERIES)
def test_query_uses_existing_labels(query: str) -> None:
    named = {label.strip() for by in re.findall(r"by \(([^)]*)\)", query) for label in by.split(",")}
    named |= {label for _, matchers in selectors(query) for label in re.findall(r"(\w+)=", matchers)}
    assert named <= labels()
    assert query.count("(") == query.count(")")


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_panel_has_required_fields(panel: dict[str, Any]) -> None:
    assert {"id", "type", "title", "description", "gridPos", "datasource", "fieldConfig", "targets"} <= panel.keys()
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= WIDTH
    refs = [target["refId"] for target in panel["targets"]]
    assert len(set(refs)) == len(refs) > 0
    named = re.findall(r"\{\{(\w+)\}\}", "".join(target["legendFormat"] for target in panel["targets"]))
    assert all(re.search(rf"by \([^)]*\b{name}\b", target["expr"]) for target in panel["targets"] for name in named)


def test_metrics_to_alert_on_have_a_panel_and_count_as_failures_of_the_last_hour() -> None:
    """Those are the metrics that docs/operations.md names."""
    operations = (ROOT / "docs" / "operations.md").read_text()
    alerts = re.search(r"Alert if one of these is not 0:(.*?)\n- ", operations, re.DOTALL)
    assert alerts is not None
    metrics = set(re.findall(r"`(\w+)", alerts[1]))
    assert len(metrics) >= 5
    hour = {name for panel in PANELS if "last hour" in panel["title"] for name in panel_metrics(panel)}
    others = {name for panel in PANELS if "last hour" not in panel["title"] for name in panel_metrics(panel)}
    assert (metrics - hour, metrics - others) == (set(), set())


def panel_metrics(panel: dict[str, Any]) -> Iterator[str]:
    """Yield the metrics that a panel shows."""
    for target in panel["targets"]:
        yield from (name for name, _ in selectors(target["expr"]))


def test_dashboard_has_required_fields() -> None:
    assert {"uid", "title", "schemaVersion", "version", "time", "refresh", "templating"} <= DASHBOARD.keys()
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "job"]
    assert "id" not in DASHBOARD, "Grafana assigns it"


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        grid = panel["gridPos"]
        across, down = range(grid["x"], grid["x"] + grid["w"]), range(grid["y"], grid["y"] + grid["h"])
        cells = {(x, y) for x in across for y in down}
        assert not taken & cells, panel["title"]
        taken |= cells
