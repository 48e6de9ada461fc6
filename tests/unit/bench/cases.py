"""Workloads built from their operations only."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from bench.opcodes import TestCase
from bench.program import Program, compiled
from bench.suite import Case

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "a", "image": "b", "resources": {"requests": {"cpu": "500m"}}}]},
}


def case(operations: str, **params: int) -> Case:
    """Return a case of these operations, a YAML list; pods request half a CPU."""
    document = {
        "name": "Case",
        "workloadTemplate": yaml.safe_load(operations),
        "workloads": [{"name": "small", "params": params}],
        "defaultPodTemplate": POD,
    }
    test = msgspec.convert(document, TestCase)
    return Case(test, test.workloads[0], Path(), "case")


def program(operations: str, **params: int) -> Program:
    """Return the program of a case of these operations."""
    return compiled(case(operations, **params))
