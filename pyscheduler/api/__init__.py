"""All that a plugin imports: the public interface of pyscheduler.

Everything named here is stable; everything else may change without notice.
"""

from pyscheduler.api.cycle import Cycle, StateKey
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.events import (
    ANY_RESOURCE,
    ANYTHING,
    ASSIGNED_POD,
    NODE,
    POD,
    UNSCHEDULABLE_POD,
    Action,
    ClusterEvent,
    Hint,
    HintFunction,
    Interest,
    ResourceKind,
)
from pyscheduler.api.handle import ApiError, ApiWriter, Handle, WaitingPod
from pyscheduler.api.match import NodeTerm, Requirement, Selector
from pyscheduler.api.nodes import Images, Ints, Mask, NodeInfo, NodeTable
from pyscheduler.api.normalize import MAX_NODE_SCORE, ByMax, Normalizer, Scores
from pyscheduler.api.objects import NodeObject, PodObject, Taint, Toleration
from pyscheduler.api.outcome import SKIP, Code, NodeNames, Nominate, Rejection, Skip, Status, Verdicts, Wait
from pyscheduler.api.plugin import (
    BindPlugin,
    FilterPlugin,
    NoArgs,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
)
from pyscheduler.api.pod import HostPort, Pod, PodShape
from pyscheduler.api.qos import QoSClass
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.topology import MISSING, Domains, PodCount, PodFacet

__all__ = [
    "ANYTHING",
    "ANY_RESOURCE",
    "ASSIGNED_POD",
    "MAX_NODE_SCORE",
    "MISSING",
    "NODE",
    "POD",
    "SKIP",
    "UNSCHEDULABLE_POD",
    "Action",
    "ApiError",
    "ApiWriter",
    "BindPlugin",
    "ByMax",
    "ClusterEvent",
    "Code",
    "Cycle",
    "Diagnosis",
    "Domains",
    "FilterPlugin",
    "Handle",
    "Hint",
    "HintFunction",
    "HostPort",
    "Images",
    "Interest",
    "Ints",
    "Mask",
    "NoArgs",
    "NodeInfo",
    "NodeNames",
    "NodeObject",
    "NodeTable",
    "NodeTerm",
    "Nominate",
    "Normalizer",
    "PermitPlugin",
    "Plugin",
    "Pod",
    "PodCount",
    "PodFacet",
    "PodObject",
    "PodShape",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreScorePlugin",
    "QoSClass",
    "QueueSortPlugin",
    "QueuedPod",
    "Reads",
    "Rejection",
    "Requirement",
    "ReservePlugin",
    "ResourceKind",
    "ScorePlugin",
    "Scores",
    "Selector",
    "Skip",
    "StateKey",
    "Status",
    "Taint",
    "Toleration",
    "Verdicts",
    "Wait",
    "WaitingPod",
]
