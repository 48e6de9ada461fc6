"""Workload kinds; `pyscheduler.kube.paths` has those that the scheduler reads."""

from __future__ import annotations

from pyscheduler.api import ResourceKind

DEPLOYMENTS = ResourceKind("apps", "v1", "deployments", "Deployment")
REPLICASETS = ResourceKind("apps", "v1", "replicasets", "ReplicaSet")
JOBS = ResourceKind("batch", "v1", "jobs", "Job")
CRONJOBS = ResourceKind("batch", "v1", "cronjobs", "CronJob")
AUTOSCALERS = ResourceKind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
RESOURCE_CLAIMS = ResourceKind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
RESOURCE_SLICES = ResourceKind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
RESOURCE_CLAIM_TEMPLATES = ResourceKind("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
STATEFULSETS = ResourceKind("apps", "v1", "statefulsets", "StatefulSet")
DAEMONSETS = ResourceKind("apps", "v1", "daemonsets", "DaemonSet")
REVISIONS = ResourceKind("apps", "v1", "controllerrevisions", "ControllerRevision")
REPLICATION_CONTROLLERS = ResourceKind("", "v1", "replicationcontrollers", "ReplicationController")
SERVICES = ResourceKind("", "v1", "services", "Service")
ENDPOINT_SLICES = ResourceKind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
CLAIMS = ResourceKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES = ResourceKind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
STORAGE_CLASSES = ResourceKind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
