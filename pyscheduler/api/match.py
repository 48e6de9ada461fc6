"""Compiled selectors and tolerations.

Pure helpers shared by plugins. A selector is compiled once per pod signature. The NumPy forms evaluate it once per
distinct value, the plain forms once per node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from pyscheduler.api.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorTerm,
    Taint,
    Toleration,
)

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
NODE_NAME_FIELD = "metadata.name"

_UNLIMITED = 1 << 62
_NUMBER_OF_VALUES = {
    "In": (1, _UNLIMITED),
    "NotIn": (1, _UNLIMITED),
    "Exists": (0, 0),
    "DoesNotExist": (0, 0),
    "Gt": (1, 1),
    "Lt": (1, 1),
}
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")
_is_label_value = _LABEL_VALUE.match
_MAX_LABEL_LENGTH = 63
_INT64 = re.compile(r"[+-]?[0-9]{1,63}\Z")
_SAFE_INT64_DIGITS = 19
"""Numbers with fewer digits always fit into int64."""


class SelectorError(ValueError):
    """Invalid selector, such as one with an unknown operator."""


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One `key operator values` of a selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, value: str | None) -> bool:
        """Return True if a label value satisfies the requirement; None is a missing label.

        SelectorError if the operator is unknown.
        """
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
        raise SelectorError(f"{self.operator!r} is not a selector operator")

    def _compares(self, value: str | None) -> bool:
        label, bound = int64(value), int64(self.values[0] if len(self.values) == 1 else None)
        if label is None or bound is None:
            return False
        return label > bound if self.operator == "Gt" else label < bound


class Selector(msgspec.Struct, frozen=True, gc=False):
    """Compiled label selector. Every requirement must hold; without requirements it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if the labels satisfy every requirement."""
        for requirement in self.requirements:  # noqa: SIM110 - a generator costs as much as the comparison
            if not requirement.matches(labels.get(requirement.key)):
                return False
        return True


class NodeTerm(msgspec.Struct, frozen=True, gc=False):
    """Compiled nodeSelectorTerm: all requirements on labels and `metadata.name` must hold. Empty matches nothing."""

    labels: tuple[Requirement, ...]
    names: tuple[Requirement, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return True if a node with this name and these labels satisfies the term."""
        if not self.labels and not self.names:
            return False
        return all(r.matches(labels.get(r.key)) for r in self.labels) and all(r.matches(name) for r in self.names)


_NOTHING = NodeTerm((), ())


def label_selector(selector: LabelSelector | None) -> Selector | None:
    """Compile a metav1.LabelSelector. None (absent) matches nothing and stays None; {} matches everything."""
    if selector is None:
        return None
    equal = (Requirement(k, "In", (v,)) for k, v in (selector.match_labels or {}).items())
    return Selector((*equal, *_requirements(selector.match_expressions)))


def node_terms(selector: NodeSelector | None) -> tuple[NodeTerm, ...]:
    """Compile the terms of a core/v1 NodeSelector. A node matches if any term does."""
    return tuple(node_term(t) for t in (selector.node_selector_terms or ())) if selector else ()


def node_term(term: NodeSelectorTerm) -> NodeTerm:
    """Compile one nodeSelectorTerm. A term that violates the API's validation matches nothing, as in kube-scheduler."""
    if not can_match(term):
        return _NOTHING
    return NodeTerm(_requirements(term.match_expressions), _requirements(term.match_fields))


def can_match(term: NodeSelectorTerm) -> bool:
    """Return True unless the nodeSelectorTerm matches nothing because it is empty or violates the API's validation."""
    labels, names = term.match_expressions or (), term.match_fields or ()
    if not labels and not names:
        return False
    return _are_valid(labels) and (not names or all(map(_is_valid_field, names)))


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return True if the toleration tolerates the taint (core/v1 ToleratesTaint, without the operators Lt and Gt)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def first_untolerated(
    taints: Iterable[Taint], tolerations: Iterable[Toleration], effects: tuple[str, ...]
) -> Taint | None:
    """Return the first taint with one of `effects` that no toleration tolerates, or None."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(t, taint) for t in tolerations):
            return taint
    return None


def _requirements(source: tuple[LabelSelectorRequirement, ...] | None) -> tuple[Requirement, ...]:
    return tuple([Requirement(r.key, r.operator, r.values or ()) for r in source]) if source else ()


def _are_valid(requirements: tuple[LabelSelectorRequirement, ...]) -> bool:
    """Return True if kube-scheduler could parse the requirements; it is stricter than the API server."""
    for requirement in requirements:  # plain loops: a pod may have 50,000 requirements
        operator, values = requirement.operator, requirement.values or ()
        least, most = _NUMBER_OF_VALUES.get(operator, (1, 0))
        if not least <= len(values) <= most:
            return False
        for value in values:
            if len(value) > _MAX_LABEL_LENGTH or not _is_label_value(value):
                return False
        if operator in ("Gt", "Lt") and int64(values[0]) is None:
            return False
    return True


def _is_valid_field(requirement: LabelSelectorRequirement) -> bool:
    is_name = requirement.key == NODE_NAME_FIELD and requirement.operator in ("In", "NotIn")
    return is_name and len(requirement.values or ()) == 1


def int64(text: str | None) -> int | None:
    """Return the integer that Gt and Lt compare (Go's strconv.ParseInt, 64 bits), or None if the text is none."""
    if text is None:
        return None
    if len(text) < _SAFE_INT64_DIGITS and text.isdecimal() and text.isascii():
        return int(text)
    if not _INT64.match(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
