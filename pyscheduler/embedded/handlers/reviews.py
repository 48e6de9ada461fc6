"""Reviews: who somebody is, and what they may do.

The embedded server asks nobody who they are. Whoever guards something else by asking it, as the scheduler does with its
metrics, gets answers that make sense all the same: the token of the server's own kubeconfig is its one user, who may do
everything, and whoever else is asked about may do nothing.
"""

from __future__ import annotations

import hmac
from typing import Any, Final

from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.status import bad_request

USER: Final = "embedded-user"
MASTERS: Final = "system:masters"
_USER: Final[Json] = {"username": USER, "uid": USER, "groups": [MASTERS, "system:authenticated"]}
_ALL_RULES: Final[Json] = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
_ALLOWED: Final[Json] = {"allowed": True, "reason": "the embedded server allows its user everything"}
_REFUSED: Final[Json] = {"allowed": False, "reason": "the embedded server knows no user but its own"}
_KINDS: Final = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"): "SelfSubjectAccessReview",
    ("authorization.k8s.io", "subjectaccessreviews"): "SubjectAccessReview",
    ("authorization.k8s.io", "localsubjectaccessreviews"): "LocalSubjectAccessReview",
    ("authorization.k8s.io", "selfsubjectrulesreviews"): "SelfSubjectRulesReview",
    ("authentication.k8s.io", "tokenreviews"): "TokenReview",
    ("authentication.k8s.io", "selfsubjectreviews"): "SelfSubjectReview",
}


class Reviews:
    """Answers reviews; `token` is the one that is somebody's."""

    def __init__(self, token: str) -> None:
        self._token = token

    def kind(self, group: str, plural: str) -> str:
        """The kind of such a review; "" if it is none."""
        return _KINDS.get((group, plural), "")

    def status(self, kind: str, body: Json) -> Json:
        """What the server says of a review. ApiError 400 where it asks about nobody."""
        match kind:
            case "SelfSubjectAccessReview":
                return _ALLOWED
            case "SelfSubjectRulesReview":
                return _ALL_RULES
            case "SelfSubjectReview":
                return {"userInfo": _USER}
            case "TokenReview":
                return self._user_of_token(dig(body, "spec", "token"))
        groups = dig(body, "spec", "groups")
        is_ours = dig(body, "spec", "user") == USER or (isinstance(groups, list) and MASTERS in groups)
        return _ALLOWED if is_ours else _REFUSED

    def _user_of_token(self, token: Any) -> Json:
        if not isinstance(token, str) or not token:
            raise bad_request("token is required for TokenReview in authentication")
        if hmac.compare_digest(token.encode(), self._token.encode()):
            return {"authenticated": True, "user": _USER}
        return {"user": {}, "error": "invalid bearer token"}
