"""Declarations of Kubernetes' authorizer.

Selectors of devices have no authorizer variable, so no value of these types exists. The declarations make the checker
resolve the names as upstream does: `device.driver.path("x")` lacks an overload, it is not an unknown function.
"""

from __future__ import annotations

from typing import Final

from pyscheduler.cel.functions.registry import Overload
from pyscheduler.cel.types import BOOL, STRING, CelType, opaque
from pyscheduler.cel.values import NO_SUCH_OVERLOAD, CelError, Value

_AUTHORIZER: Final = opaque("kubernetes.authorization.Authorizer")
_PATH_CHECK: Final = opaque("kubernetes.authorization.PathCheck")
_GROUP_CHECK: Final = opaque("kubernetes.authorization.GroupCheck")
_RESOURCE_CHECK: Final = opaque("kubernetes.authorization.ResourceCheck")
_DECISION: Final = opaque("kubernetes.authorization.Decision")


def _call(*_arguments: Value) -> CelError:
    return NO_SUCH_OVERLOAD


def _member(name: str, arguments: tuple[CelType, ...], result: CelType) -> Overload:
    return Overload(name, arguments, result, _call, is_member=True)


AUTHORIZATION_LIBRARY: Final = {
    "path": (_member("authorizer_path", (_AUTHORIZER, STRING), _PATH_CHECK),),
    "group": (_member("authorizer_group", (_AUTHORIZER, STRING), _GROUP_CHECK),),
    "serviceAccount": (_member("authorizer_serviceaccount", (_AUTHORIZER, STRING, STRING), _AUTHORIZER),),
    "resource": (_member("groupcheck_resource", (_GROUP_CHECK, STRING), _RESOURCE_CHECK),),
    "subresource": (_member("resourcecheck_subresource", (_RESOURCE_CHECK, STRING), _RESOURCE_CHECK),),
    "namespace": (_member("resourcecheck_namespace", (_RESOURCE_CHECK, STRING), _RESOURCE_CHECK),),
    "name": (_member("resourcecheck_name", (_RESOURCE_CHECK, STRING), _RESOURCE_CHECK),),
    "check": (
        _member("pathcheck_check", (_PATH_CHECK, STRING), _DECISION),
        _member("resourcecheck_check", (_RESOURCE_CHECK, STRING), _DECISION),
    ),
    "errored": (_member("decision_errored", (_DECISION,), BOOL),),
    "error": (_member("decision_error", (_DECISION,), STRING),),
    "allowed": (_member("decision_allowed", (_DECISION,), BOOL),),
    "reason": (_member("decision_reason", (_DECISION,), STRING),),
    "fieldSelector": (_member("authorizer_fieldselector", (_RESOURCE_CHECK, STRING), _RESOURCE_CHECK),),
    "labelSelector": (_member("authorizer_labelselector", (_RESOURCE_CHECK, STRING), _RESOURCE_CHECK),),
}
