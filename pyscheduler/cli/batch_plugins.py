"""The parts of the distribution pyscheduler-plugins that commands use, which may not be installed."""

from __future__ import annotations

from pyscheduler.cli.command_problem import CommandProblem

try:
    from pyscheduler_plugins.queues.plugin import DEFAULT_QUEUE, Queues
    from pyscheduler_plugins.queues.queue import QUEUE, Queue, QueueState
    from pyscheduler_plugins.queues.tree import QueueTree
except ModuleNotFoundError as error:
    if error.name != "pyscheduler_plugins":
        raise
    raise CommandProblem("the plugins PodGroups and Queues are missing: pip install pyscheduler-plugins") from None

__all__ = ["DEFAULT_QUEUE", "QUEUE", "Queue", "QueueState", "QueueTree", "Queues"]
