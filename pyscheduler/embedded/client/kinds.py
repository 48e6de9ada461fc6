"""Workload kinds; `pyscheduler.kube.paths` has those that the scheduler reads."""

from __future__ import annotations

from pyscheduler.api import ResourceKind

DEPLOYMENTS = ResourceKind("apps", "v1", "deployments", "Deployment")
REPLICASETS = ResourceKind("apps", "v1", "replicasets", "ReplicaSet")
JOBS = ResourceKind("batch", "v1", "jobs", "Job")
CRONJOBS = ResourceKind("batch", "v1", "cronjobs", "CronJob")
RESOURCE_CLAIMS = ResourceKind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES = ResourceKind("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
