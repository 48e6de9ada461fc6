"""Domains of nodes."""

from __future__ import annotations

import numpy as np

from pyscheduler.api import Domains

KNOWN: dict[str | None, int] = {None: 0, "a": 1, "b": 2, "c": 3}


def domains(*ids: int) -> Domains:
    return Domains(np.array(ids, np.intp), KNOWN)


def test_domains_of_some_nodes_have_the_same_ids() -> None:
    assert domains(1, 2, 1, 3).of_nodes(np.array([3, 0])).ids.tolist() == [3, 1]
    assert domains(1, 2, 1, 3).of_nodes(np.array([3, 0])).unlabelled.tolist() == []
    assert domains(1, 0, 1, 3).of_nodes(np.array([2, 1])).unlabelled.tolist() == [1]
