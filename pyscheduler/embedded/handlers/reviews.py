"""Token and access reviews.

The embedded server does not authenticate its clients. Components that delegate authentication to it, as the scheduler
does for its metrics endpoint, still get consistent reviews: the token of the server's own kubeconfig belongs to its one
user, which is allowed everything; every other user is denied everything.
"""

from __future__ import annotations

import hmac
from typing import Any, Final

from pyscheduler.embedded.handlers.tokens import ServiceAccountTokens
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
_DENIED: Final[Json] = {"allowed": False, "reason": "the embedded server has no user but its own"}
_KINDS: Final = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"): "SelfSubjectAccessReview",
    ("authorization.k8s.io", "subjectaccessreviews"): "SubjectAccessReview",
    ("authorization.k8s.io", "localsubjectaccessreviews"): "LocalSubjectAccessReview",
    ("authorization.k8s.io", "selfsubjectrulesreviews"): "SelfSubjectRulesReview",
    ("authentication.k8s.io", "tokenreviews"): "TokenReview",
    ("authentication.k8s.io", "selfsubjectreviews"): "SelfSubjectReview",
}


class Reviews:
    """Status of reviews; `token` is that of the server's one user, `tokens` has those of service accounts."""

    def __init__(self, token: str, tokens: ServiceAccountTokens) -> None:
        self._token, self._tokens = token, tokens

    def kind(self, group: str, plural: str) -> str:
        """Return the kind of a review resource, "" if it is none."""
        return _KINDS.get((group, plural), "")

    def status(self, kind: str, body: Json) -> Json:
        """Return the status of a review. ApiError 400 if a TokenReview has no token."""
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
        is_own_user = dig(body, "spec", "user") == USER or (isinstance(groups, list) and MASTERS in groups)
        return _ALLOWED if is_own_user else _DENIED

    def _user_of_token(self, token: Any) -> Json:
        if not isinstance(token, str) or not token:
            raise bad_request("token is required for TokenReview in authentication")
        if hmac.compare_digest(token.encode(), self._token.encode()):
            return {"authenticated": True, "user": _USER}
        account = self._tokens.user_of(token)
        if account is not None:
            return {"authenticated": True, "user": account}
        return {"user": {}, "error": "invalid bearer token"}
