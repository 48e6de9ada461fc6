"""Protobuf fields of kinds of the other API groups.

Generated from the struct tags of k8s.io/api v0.36.3 and k8s.io/apimachinery v0.36.3; `table.py` explains the notation.
"""

from __future__ import annotations

GROUPS = """
apps.Deployment 1=metadata:m:ObjectMeta 2=spec:m:apps.DeploymentSpec 3=status:m:apps.DeploymentStatus
apps.DeploymentSpec 1=replicas:I 2=selector:M:LabelSelector 3=template:m:PodTemplateSpec
  4=strategy:m:apps.DeploymentStrategy 5=minReadySeconds:i 6=revisionHistoryLimit:I 7=paused:b
  9=progressDeadlineSeconds:I
apps.DeploymentStrategy 1=type:s 2=rollingUpdate:M:apps.RollingUpdateDeployment
apps.RollingUpdateDeployment 1=maxUnavailable:X 2=maxSurge:X
apps.DeploymentStatus 1=observedGeneration:i 2=replicas:i 3=updatedReplicas:i 4=availableReplicas:i
  5=unavailableReplicas:i 6=conditions:[m:apps.DeploymentCondition 7=readyReplicas:i 8=collisionCount:I
  9=terminatingReplicas:I
apps.DeploymentCondition 1=type:s 2=status:s 4=reason:s 5=message:s 6=lastUpdateTime:t
  7=lastTransitionTime:t
apps.ReplicaSet 1=metadata:m:ObjectMeta 2=spec:m:apps.ReplicaSetSpec 3=status:m:apps.ReplicaSetStatus
apps.ReplicaSetSpec 1=replicas:I 2=selector:M:LabelSelector 3=template:m:PodTemplateSpec 4=minReadySeconds:i
apps.ReplicaSetStatus 1=replicas:i 2=fullyLabeledReplicas:i 3=observedGeneration:i 4=readyReplicas:i
  5=availableReplicas:i 6=conditions:[m:apps.ReplicaSetCondition 7=terminatingReplicas:I
apps.ReplicaSetCondition 1=type:s 2=status:s 3=lastTransitionTime:t 4=reason:s 5=message:s
apps.StatefulSet 1=metadata:m:ObjectMeta 2=spec:m:apps.StatefulSetSpec 3=status:m:apps.StatefulSetStatus
apps.StatefulSetSpec 1=replicas:I 2=selector:M:LabelSelector 3=template:m:PodTemplateSpec
  4=volumeClaimTemplates:[m:PersistentVolumeClaim 5=serviceName:s 6=podManagementPolicy:s
  7=updateStrategy:m:apps.StatefulSetUpdateStrategy 8=revisionHistoryLimit:I 9=minReadySeconds:i
  10=persistentVolumeClaimRetentionPolicy:M:apps.StatefulSetPersistentVolumeClaimRetentionPolicy
  11=ordinals:M:apps.StatefulSetOrdinals
apps.StatefulSetUpdateStrategy 1=type:s 2=rollingUpdate:M:apps.RollingUpdateStatefulSetStrategy
apps.RollingUpdateStatefulSetStrategy 1=partition:I 2=maxUnavailable:X
apps.StatefulSetPersistentVolumeClaimRetentionPolicy 1=whenDeleted:s 2=whenScaled:s
apps.StatefulSetOrdinals 1=start:i
apps.StatefulSetStatus 1=observedGeneration:i 2=replicas:i 3=readyReplicas:i 4=currentReplicas:i
  5=updatedReplicas:i 6=currentRevision:s 7=updateRevision:s 9=collisionCount:I
  10=conditions:[m:apps.StatefulSetCondition 11=availableReplicas:i
apps.StatefulSetCondition 1=type:s 2=status:s 3=lastTransitionTime:t 4=reason:s 5=message:s
apps.DaemonSet 1=metadata:m:ObjectMeta 2=spec:m:apps.DaemonSetSpec 3=status:m:apps.DaemonSetStatus
apps.DaemonSetSpec 1=selector:M:LabelSelector 2=template:m:PodTemplateSpec
  3=updateStrategy:m:apps.DaemonSetUpdateStrategy 4=minReadySeconds:i 6=revisionHistoryLimit:I
apps.DaemonSetUpdateStrategy 1=type:s 2=rollingUpdate:M:apps.RollingUpdateDaemonSet
apps.RollingUpdateDaemonSet 1=maxUnavailable:X 2=maxSurge:X
apps.DaemonSetStatus 1=currentNumberScheduled:i 2=numberMisscheduled:i 3=desiredNumberScheduled:i
  4=numberReady:i 5=observedGeneration:i 6=updatedNumberScheduled:i 7=numberAvailable:i
  8=numberUnavailable:i 9=collisionCount:I 10=conditions:[m:apps.DaemonSetCondition
apps.DaemonSetCondition 1=type:s 2=status:s 3=lastTransitionTime:t 4=reason:s 5=message:s
apps.ControllerRevision 1=metadata:m:ObjectMeta 2=data:r 3=revision:i
batch.Job 1=metadata:m:ObjectMeta 2=spec:m:batch.JobSpec 3=status:m:batch.JobStatus
batch.JobSpec 1=parallelism:I 2=completions:I 3=activeDeadlineSeconds:I 4=selector:M:LabelSelector
  5=manualSelector:B 6=template:m:PodTemplateSpec 7=backoffLimit:I 8=ttlSecondsAfterFinished:I
  9=completionMode:S 10=suspend:B 11=podFailurePolicy:M:batch.PodFailurePolicy 12=backoffLimitPerIndex:I
  13=maxFailedIndexes:I 14=podReplacementPolicy:S 15=managedBy:S 16=successPolicy:M:batch.SuccessPolicy
batch.PodFailurePolicy 1=rules:[m:batch.PodFailurePolicyRule
batch.PodFailurePolicyRule 1=action:s 2=onExitCodes:M:batch.PodFailurePolicyOnExitCodesRequirement
  3=onPodConditions:[m:batch.PodFailurePolicyOnPodConditionsPattern
batch.PodFailurePolicyOnExitCodesRequirement 1=containerName:S 2=operator:s 3=values:[i
batch.PodFailurePolicyOnPodConditionsPattern 1=type:s 2=status:s
batch.SuccessPolicy 1=rules:[m:batch.SuccessPolicyRule
batch.SuccessPolicyRule 1=succeededIndexes:S 2=succeededCount:I
batch.JobStatus 1=conditions:[m:batch.JobCondition 2=startTime:T 3=completionTime:T 4=active:i 5=succeeded:i
  6=failed:i 7=completedIndexes:s 8=uncountedTerminatedPods:M:batch.UncountedTerminatedPods 9=ready:I
  10=failedIndexes:S 11=terminating:I
batch.JobCondition 1=type:s 2=status:s 3=lastProbeTime:t 4=lastTransitionTime:t 5=reason:s 6=message:s
batch.UncountedTerminatedPods 1=succeeded:[s 2=failed:[s
batch.CronJob 1=metadata:m:ObjectMeta 2=spec:m:batch.CronJobSpec 3=status:m:batch.CronJobStatus
batch.CronJobSpec 1=schedule:s 2=startingDeadlineSeconds:I 3=concurrencyPolicy:s 4=suspend:B
  5=jobTemplate:m:batch.JobTemplateSpec 6=successfulJobsHistoryLimit:I 7=failedJobsHistoryLimit:I
  8=timeZone:S
batch.JobTemplateSpec 1=metadata:m:ObjectMeta 2=spec:m:batch.JobSpec
batch.CronJobStatus 1=active:[m:ObjectReference 4=lastScheduleTime:T 5=lastSuccessfulTime:T
policy.PodDisruptionBudget 1=metadata:m:ObjectMeta 2=spec:m:policy.PodDisruptionBudgetSpec
  3=status:m:policy.PodDisruptionBudgetStatus
policy.PodDisruptionBudgetSpec 1=minAvailable:X 2=selector:M:LabelSelector 3=maxUnavailable:X
  4=unhealthyPodEvictionPolicy:S
policy.PodDisruptionBudgetStatus 1=observedGeneration:i 2=disruptedPods:{t 3=disruptionsAllowed:i
  4=currentHealthy:i 5=desiredHealthy:i 6=expectedPods:i 7=conditions:[m:Condition
policy.Eviction 1=metadata:m:ObjectMeta 2=deleteOptions:M:DeleteOptions
scheduling.PriorityClass 1=metadata:m:ObjectMeta 2=value:i 3=globalDefault:b 4=description:s
  5=preemptionPolicy:S
coordination.Lease 1=metadata:m:ObjectMeta 2=spec:m:coordination.LeaseSpec
coordination.LeaseSpec 1=holderIdentity:S 2=leaseDurationSeconds:I 3=acquireTime:T 4=renewTime:T
  5=leaseTransitions:I 6=strategy:S 7=preferredHolder:S
events.Event 1=metadata:m:ObjectMeta 2=eventTime:t 3=series:M:events.EventSeries 4=reportingController:s
  5=reportingInstance:s 6=action:s 7=reason:s 8=regarding:m:ObjectReference 9=related:M:ObjectReference
  10=note:s 11=type:s 12=deprecatedSource:m:EventSource 13=deprecatedFirstTimestamp:t
  14=deprecatedLastTimestamp:t 15=deprecatedCount:i
events.EventSeries 1=count:i 2=lastObservedTime:t
autoscaling.Scale 1=metadata:m:ObjectMeta 2=spec:m:autoscaling.ScaleSpec 3=status:m:autoscaling.ScaleStatus
autoscaling.ScaleSpec 1=replicas:i
autoscaling.ScaleStatus 1=replicas:i 2=selector:s
storage.StorageClass 1=metadata:m:ObjectMeta 2=provisioner:s 3=parameters:{s 4=reclaimPolicy:S
  5=mountOptions:[s 6=allowVolumeExpansion:B 7=volumeBindingMode:S
  8=allowedTopologies:[m:TopologySelectorTerm
storage.CSINode 1=metadata:m:ObjectMeta 2=spec:m:storage.CSINodeSpec
storage.CSINodeSpec 1=drivers:[m:storage.CSINodeDriver
storage.CSINodeDriver 1=name:s 2=nodeID:s 3=topologyKeys:[s 4=allocatable:M:storage.VolumeNodeResources
storage.VolumeNodeResources 1=count:I
storage.CSIDriver 1=metadata:m:ObjectMeta 2=spec:m:storage.CSIDriverSpec
storage.CSIDriverSpec 1=attachRequired:B 2=podInfoOnMount:B 3=volumeLifecycleModes:[s 4=storageCapacity:B
  5=fsGroupPolicy:S 6=tokenRequests:[m:storage.TokenRequest 7=requiresRepublish:B 8=seLinuxMount:B
  9=nodeAllocatableUpdatePeriodSeconds:I 10=serviceAccountTokenInSecrets:B
  11=preventPodSchedulingIfMissing:B
storage.TokenRequest 1=audience:s 2=expirationSeconds:I
storage.CSIStorageCapacity 1=metadata:m:ObjectMeta 2=nodeTopology:M:LabelSelector 3=storageClassName:s
  4=capacity:Q 5=maximumVolumeSize:Q
storage.VolumeAttachment 1=metadata:m:ObjectMeta 2=spec:m:storage.VolumeAttachmentSpec
  3=status:m:storage.VolumeAttachmentStatus
storage.VolumeAttachmentSpec 1=attacher:s 2=source:m:storage.VolumeAttachmentSource 3=nodeName:s
storage.VolumeAttachmentSource 1=persistentVolumeName:S 2=inlineVolumeSpec:M:PersistentVolumeSpec
storage.VolumeAttachmentStatus 1=attached:b 2=attachmentMetadata:{s 3=attachError:M:storage.VolumeError
  4=detachError:M:storage.VolumeError
storage.VolumeError 1=time:t 2=message:s 3=errorCode:I
storage.VolumeAttributesClass 1=metadata:m:ObjectMeta 2=driverName:s 3=parameters:{s
rbac.Role 1=metadata:m:ObjectMeta 2=rules:[m:rbac.PolicyRule
rbac.PolicyRule 1=verbs:[s 2=apiGroups:[s 3=resources:[s 4=resourceNames:[s 5=nonResourceURLs:[s
rbac.RoleBinding 1=metadata:m:ObjectMeta 2=subjects:[m:rbac.Subject 3=roleRef:m:rbac.RoleRef
rbac.Subject 1=kind:s 2=apiGroup:s 3=name:s 4=namespace:s
rbac.RoleRef 1=apiGroup:s 2=kind:s 3=name:s
rbac.ClusterRole 1=metadata:m:ObjectMeta 2=rules:[m:rbac.PolicyRule 3=aggregationRule:M:rbac.AggregationRule
rbac.AggregationRule 1=clusterRoleSelectors:[m:LabelSelector
rbac.ClusterRoleBinding 1=metadata:m:ObjectMeta 2=subjects:[m:rbac.Subject 3=roleRef:m:rbac.RoleRef
authentication.TokenReview 1=metadata:m:ObjectMeta 2=spec:m:authentication.TokenReviewSpec
  3=status:m:authentication.TokenReviewStatus
authentication.TokenReviewSpec 1=token:s 2=audiences:[s
authentication.TokenReviewStatus 1=authenticated:b 2=user:m:authentication.UserInfo 3=error:s 4=audiences:[s
authentication.UserInfo 1=username:s 2=uid:s 3=groups:[s 4=extra:{e
authentication.SelfSubjectReview 1=metadata:m:ObjectMeta 2=status:m:authentication.SelfSubjectReviewStatus
authentication.SelfSubjectReviewStatus 1=userInfo:m:authentication.UserInfo
authorization.SelfSubjectAccessReview 1=metadata:m:ObjectMeta
  2=spec:m:authorization.SelfSubjectAccessReviewSpec 3=status:m:authorization.SubjectAccessReviewStatus
authorization.SelfSubjectAccessReviewSpec 1=resourceAttributes:M:authorization.ResourceAttributes
  2=nonResourceAttributes:M:authorization.NonResourceAttributes
authorization.ResourceAttributes 1=namespace:s 2=verb:s 3=group:s 4=version:s 5=resource:s 6=subresource:s
  7=name:s 8=fieldSelector:M:authorization.FieldSelectorAttributes
  9=labelSelector:M:authorization.LabelSelectorAttributes
authorization.FieldSelectorAttributes 1=rawSelector:s 2=requirements:[m:FieldSelectorRequirement
authorization.LabelSelectorAttributes 1=rawSelector:s 2=requirements:[m:LabelSelectorRequirement
authorization.NonResourceAttributes 1=path:s 2=verb:s
authorization.SubjectAccessReviewStatus 1=allowed:b 2=reason:s 3=evaluationError:s 4=denied:b
authorization.SubjectAccessReview 1=metadata:m:ObjectMeta 2=spec:m:authorization.SubjectAccessReviewSpec
  3=status:m:authorization.SubjectAccessReviewStatus
authorization.SubjectAccessReviewSpec 1=resourceAttributes:M:authorization.ResourceAttributes
  2=nonResourceAttributes:M:authorization.NonResourceAttributes 3=user:s 4=groups:[s 5=extra:{e 6=uid:s
authorization.LocalSubjectAccessReview 1=metadata:m:ObjectMeta
  2=spec:m:authorization.SubjectAccessReviewSpec 3=status:m:authorization.SubjectAccessReviewStatus
authorization.SelfSubjectRulesReview 1=metadata:m:ObjectMeta
  2=spec:m:authorization.SelfSubjectRulesReviewSpec 3=status:m:authorization.SubjectRulesReviewStatus
authorization.SelfSubjectRulesReviewSpec 1=namespace:s
authorization.SubjectRulesReviewStatus 1=resourceRules:[m:authorization.ResourceRule
  2=nonResourceRules:[m:authorization.NonResourceRule 3=incomplete:b 4=evaluationError:s
authorization.ResourceRule 1=verbs:[s 2=apiGroups:[s 3=resources:[s 4=resourceNames:[s
authorization.NonResourceRule 1=verbs:[s 2=nonResourceURLs:[s
resource.DeviceClass 1=metadata:m:ObjectMeta 2=spec:m:resource.DeviceClassSpec
resource.DeviceClassSpec 1=selectors:[m:resource.DeviceSelector
  2=config:[m:resource.DeviceClassConfiguration 4=extendedResourceName:S
resource.DeviceSelector 1=cel:M:resource.CELDeviceSelector
resource.CELDeviceSelector 1=expression:s
resource.DeviceClassConfiguration 1=:m:resource.DeviceConfiguration
resource.DeviceConfiguration 1=opaque:M:resource.OpaqueDeviceConfiguration
resource.OpaqueDeviceConfiguration 1=driver:s 2=parameters:r
resource.ResourceClaim 1=metadata:m:ObjectMeta 2=spec:m:resource.ResourceClaimSpec
  3=status:m:resource.ResourceClaimStatus
resource.ResourceClaimSpec 1=devices:m:resource.DeviceClaim
resource.DeviceClaim 1=requests:[m:resource.DeviceRequest 2=constraints:[m:resource.DeviceConstraint
  3=config:[m:resource.DeviceClaimConfiguration
resource.DeviceRequest 1=name:s 2=exactly:M:resource.ExactDeviceRequest
  3=firstAvailable:[m:resource.DeviceSubRequest
resource.ExactDeviceRequest 1=deviceClassName:s 2=selectors:[m:resource.DeviceSelector 3=allocationMode:s
  4=count:i 5=adminAccess:B 6=tolerations:[m:resource.DeviceToleration
  7=capacity:M:resource.CapacityRequirements
resource.DeviceToleration 1=key:s 2=operator:s 3=value:s 4=effect:s 5=tolerationSeconds:I
resource.CapacityRequirements 1=requests:{q
resource.DeviceSubRequest 1=name:s 2=deviceClassName:s 3=selectors:[m:resource.DeviceSelector
  4=allocationMode:s 5=count:i 6=tolerations:[m:resource.DeviceToleration
  7=capacity:M:resource.CapacityRequirements
resource.DeviceConstraint 1=requests:[s 2=matchAttribute:S 3=distinctAttribute:S
resource.DeviceClaimConfiguration 1=requests:[s 2=:m:resource.DeviceConfiguration
resource.ResourceClaimStatus 1=allocation:M:resource.AllocationResult
  2=reservedFor:[m:resource.ResourceClaimConsumerReference 4=devices:[m:resource.AllocatedDeviceStatus
resource.AllocationResult 1=devices:m:resource.DeviceAllocationResult 3=nodeSelector:M:NodeSelector
  5=allocationTimestamp:T
resource.DeviceAllocationResult 1=results:[m:resource.DeviceRequestAllocationResult
  2=config:[m:resource.DeviceAllocationConfiguration
resource.DeviceRequestAllocationResult 1=request:s 2=driver:s 3=pool:s 4=device:s 5=adminAccess:B
  6=tolerations:[m:resource.DeviceToleration 7=bindingConditions:[s 8=bindingFailureConditions:[s
  9=shareID:S 10=consumedCapacity:{q
resource.DeviceAllocationConfiguration 1=source:s 2=requests:[s 3=:m:resource.DeviceConfiguration
resource.ResourceClaimConsumerReference 1=apiGroup:s 3=resource:s 4=name:s 5=uid:s
resource.AllocatedDeviceStatus 1=driver:s 2=pool:s 3=device:s 4=conditions:[m:Condition 5=data:R
  6=networkData:M:resource.NetworkDeviceData 7=shareID:S
resource.NetworkDeviceData 1=interfaceName:s 2=ips:[s 3=hardwareAddress:s
resource.ResourceClaimTemplate 1=metadata:m:ObjectMeta 2=spec:m:resource.ResourceClaimTemplateSpec
resource.ResourceClaimTemplateSpec 1=metadata:m:ObjectMeta 2=spec:m:resource.ResourceClaimSpec
resource.ResourceSlice 1=metadata:m:ObjectMeta 2=spec:m:resource.ResourceSliceSpec
resource.ResourceSliceSpec 1=driver:s 2=pool:m:resource.ResourcePool 3=nodeName:S
  4=nodeSelector:M:NodeSelector 5=allNodes:B 6=devices:[m:resource.Device 7=perDeviceNodeSelection:B
  8=sharedCounters:[m:resource.CounterSet
resource.ResourcePool 1=name:s 2=generation:i 3=resourceSliceCount:i
resource.Device 1=name:s 2=attributes:{m:resource.DeviceAttribute 3=capacity:{m:resource.DeviceCapacity
  4=consumesCounters:[m:resource.DeviceCounterConsumption 5=nodeName:S 6=nodeSelector:M:NodeSelector
  7=allNodes:B 8=taints:[m:resource.DeviceTaint 9=bindsToNode:B 10=bindingConditions:[s
  11=bindingFailureConditions:[s 12=allowMultipleAllocations:B
  13=nodeAllocatableResourceMappings:{m:resource.NodeAllocatableResourceMapping
resource.DeviceAttribute 2=int:I 3=bool:B 4=string:S 5=version:S 6=ints:[i 7=bools:[b 8=strings:[s
  9=versions:[s
resource.DeviceCapacity 1=value:q 2=requestPolicy:M:resource.CapacityRequestPolicy
resource.CapacityRequestPolicy 1=default:Q 3=validValues:[q
  4=validRange:M:resource.CapacityRequestPolicyRange
resource.CapacityRequestPolicyRange 1=min:Q 2=max:Q 3=step:Q
resource.DeviceCounterConsumption 1=counterSet:s 2=counters:{m:resource.Counter
resource.Counter 1=value:q
resource.DeviceTaint 1=key:s 2=value:s 3=effect:s 4=timeAdded:T
resource.NodeAllocatableResourceMapping 1=capacityKey:S 2=allocationMultiplier:Q
resource.CounterSet 1=name:s 2=counters:{m:resource.Counter
"""
