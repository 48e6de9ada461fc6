"""Reprieve of potential victims on many nodes at once, if only the nodes' free resources decide.

Pods are then added back in one pass over the columns, without a call of Filter plugins per pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.plugin import FilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.victims import PotentialVictims, Reprieve
from pyscheduler.core.framework.plugin_calls import call_guarded
from pyscheduler.core.state.table import ColumnSource
from pyscheduler.core.state.without_lower_priority import (
    TOO_BIG,
    NumberOfPods,
    ResourceRequests,
    TableWithoutLowerPriority,
)
from pyscheduler.kernels import reprieve


def required_room(filters: Sequence[FilterPlugin], cycle: Cycle, pod: Pod) -> Mapping[str, int] | None:
    """Return the requests that alone decide the results of all filters; None if these depend on anything else."""
    required: dict[str, int] = {}
    for plugin in filters:
        room = call_guarded(plugin.name, "Filter", plugin.required_room, cycle, pod)
        if room is None or any(amount >= TOO_BIG for amount in room.values()):
            return None
        for resource, amount in room.items():
            required[resource] = max(amount, required.get(resource, 0))
    return required if filters else None


def reprieve_by_room(
    state: ColumnSource,
    pod: Pod,
    victims: PotentialVictims,
    nominated: Mapping[int, Sequence[Pod]],
    required: Mapping[str, int],
) -> Reprieve:
    """Return which of the pods stay next to `pod` and to the pods nominated to their node, by index.

    Nominated pods only take room, so a node that has enough with them also has enough without them.
    """
    table = TableWithoutLowerPriority(state, pod.priority, victims.rows, nominated)
    free = [(table.allowed_pods - table.pod_counts - 1, victims.kinds.values(NumberOfPods()))]
    for resource, amount in required.items():
        unrequested = table.allocatable(resource) - table.requested(resource)
        free.append((unrequested - amount, victims.kinds.values(ResourceRequests(resource))))
    stays = np.empty(victims.pods.shape, np.bool_)
    reprieve(stays.reshape(-1), victims.pods.reshape(-1), tuple(free))
    return Reprieve(stays, table.overflowed)
