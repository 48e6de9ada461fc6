"""PodGroup controller: updates the status of PodGroup objects, built on kopf around one pure function."""

from pyscheduler.controllers.operator import PodGroupOperator
from pyscheduler.controllers.podgroup_status import POD_GROUP_LABEL, Member, member_of, podgroup_status

__all__ = ["POD_GROUP_LABEL", "Member", "PodGroupOperator", "member_of", "podgroup_status"]
