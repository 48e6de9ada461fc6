"""podFailurePolicy and successPolicy of a Job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.workloads.jobs.indexes import expand

FAIL_JOB, FAIL_INDEX, IGNORE = "FailJob", "FailIndex", "Ignore"


class FailurePolicyMatch(NamedTuple):
    """Action of the rule that a failed pod matches ("" for none), and the message for a Job that it fails."""

    action: str = ""
    message: str = ""

    @property
    def counts(self) -> bool:
        """True if the failure counts towards the backoff limits."""
        return self.action != IGNORE


def match_failure_policy(job: Json, pod: Json) -> FailurePolicyMatch:
    """Return the match of a failed pod with the first matching rule of the Job's podFailurePolicy."""
    for number, rule in enumerate(dig(job, "spec", "podFailurePolicy", "rules") or ()):
        why = _matches(rule, pod)
        if why:
            return FailurePolicyMatch(rule["action"], f"{why} matching {rule['action']} rule at index {number}")
    return FailurePolicyMatch()


def _matches(rule: Json, pod: Json) -> str:
    meta = pod["metadata"]
    name = f"{meta['namespace']}/{meta['name']}"
    if rule.get("onExitCodes") is not None:
        for status in _containers(pod):
            code = dig(status, "state", "terminated", "exitCode")
            if code and _matches_exit_code(rule["onExitCodes"], status["name"], code):
                return f"Container {status['name']} for pod {name} failed with exit code {code}"
        return ""
    for present in dig(pod, "status", "conditions") or ():
        for pattern in rule.get("onPodConditions") or ():
            if (present["type"], present["status"]) == (pattern["type"], pattern.get("status", "True")):
                return f"Pod {name} has condition {present['type']}"
    return ""


def _containers(pod: Json) -> Iterator[Json]:
    for field in ("containerStatuses", "initContainerStatuses"):
        yield from dig(pod, "status", field) or ()


def _matches_exit_code(requirement: Json, container: str, code: int) -> bool:
    if requirement.get("containerName") not in (None, container):
        return False
    listed = code in (requirement.get("values") or ())
    return listed if requirement["operator"] == "In" else not listed


def match_success_policy(job: Json, done: set[int], completions: int) -> str:
    """Return the message for the first rule of the Job's successPolicy that `done` meets, "" if none is met."""
    for number, rule in enumerate(dig(job, "spec", "successPolicy", "rules") or ()):
        if done and _enough(rule, done, completions):
            return f"Matched rules at index {number}"
    return ""


def _enough(rule: Json, done: set[int], completions: int) -> bool:
    count = rule.get("succeededCount")
    if rule.get("succeededIndexes") is None:
        return count is not None and len(done) >= int(count)
    required = expand(rule["succeededIndexes"], completions)
    met = len(required & done)
    return bool(required) and (met == len(required) or (count is not None and met >= int(count)))
