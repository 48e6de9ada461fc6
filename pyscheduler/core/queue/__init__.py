"""Scheduling queue: the order of pending pods, and the events that requeue unschedulable ones."""

from pyscheduler.core.queue.backlog import SLICE
from pyscheduler.core.queue.backoff import Backoff
from pyscheduler.core.queue.entry import QueueEntry, Tier
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.queue.profile import QueueProfile
from pyscheduler.core.queue.queue import SchedulingQueue

__all__ = ["SLICE", "Backoff", "Nominator", "QueueEntry", "QueueProfile", "SchedulingQueue", "Tier"]
