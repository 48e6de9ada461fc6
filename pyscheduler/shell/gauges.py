"""Gauges and counters that are read from the state of the scheduler at scrape time."""

from __future__ import annotations

from collections.abc import Iterator

from pyscheduler.config.gates import FeatureGates
from pyscheduler.core.context import Context
from pyscheduler.core.framework.failure_points import failure_points
from pyscheduler.shell.counting import Labels
from pyscheduler.shell.executor import Executor
from pyscheduler.shell.metrics import Metrics


def register_gauges(metrics: Metrics, context: Context, executor: Executor, gates: FeatureGates) -> None:
    """Connect the gauges to the values that they read at scrape time."""

    def cache_sizes() -> dict[str, float]:
        return {"nodes": len(context.state), "pods": len(context.pods), "assumed_pods": len(context.assumed)}

    def evaluations() -> dict[Labels, float]:
        return {
            (plugin, point, profile.name): number
            for profile in context.profiles.values()
            for point, plugin, number in profile.evaluations
        }

    def possible_failures() -> Iterator[Labels]:
        yield "pyscheduler", "attempt"
        for profile in context.profiles.values():
            yield from failure_points(profile)

    queue = context.queue
    metrics.pending_pods.set_function(queue.pending_counts)
    metrics.unschedulable_pods.set_function(queue.rejected_by)
    metrics.inflight_events.set_function(queue.in_flight_counts)
    metrics.cache_size.set_function(cache_sizes)
    metrics.goroutines.set_function(lambda: {"binding": executor.unfinished})
    metrics.held_up.set_function(executor.bindings.detached_by_plugin)
    metrics.evaluations.set_function(evaluations)
    metrics.plugin_failures.start_at_zero(possible_failures)
    metrics.features.set_function(
        lambda: {(gate.name, gate.stage.label): gates.on(gate.name) for gate in gates.known.values()}
    )
