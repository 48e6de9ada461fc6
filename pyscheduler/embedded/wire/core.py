"""Protobuf fields of kinds of the core group other than pods.

Generated from the struct tags of k8s.io/api v0.36.3 and k8s.io/apimachinery v0.36.3; `table.py` explains the notation.
"""

from __future__ import annotations

CORE = """
Node 1=metadata:m:ObjectMeta 2=spec:m:NodeSpec 3=status:m:NodeStatus
NodeSpec 1=podCIDR:s 2=externalID:s 3=providerID:s 4=unschedulable:b 5=taints:[m:Taint
  6=configSource:M:NodeConfigSource 7=podCIDRs:[s
Taint 1=key:s 2=value:s 3=effect:s 4=timeAdded:T
NodeConfigSource 2=configMap:M:ConfigMapNodeConfigSource
ConfigMapNodeConfigSource 1=namespace:s 2=name:s 3=uid:s 4=resourceVersion:s 5=kubeletConfigKey:s
NodeStatus 1=capacity:{q 2=allocatable:{q 3=phase:s 4=conditions:[m:NodeCondition 5=addresses:[m:NodeAddress
  6=daemonEndpoints:m:NodeDaemonEndpoints 7=nodeInfo:m:NodeSystemInfo 8=images:[m:ContainerImage
  9=volumesInUse:[s 10=volumesAttached:[m:AttachedVolume 11=config:M:NodeConfigStatus
  12=runtimeHandlers:[m:NodeRuntimeHandler 13=features:M:NodeFeatures 14=declaredFeatures:[s
NodeCondition 1=type:s 2=status:s 3=lastHeartbeatTime:t 4=lastTransitionTime:t 5=reason:s 6=message:s
NodeAddress 1=type:s 2=address:s
NodeDaemonEndpoints 1=kubeletEndpoint:m:DaemonEndpoint
DaemonEndpoint 1=Port:i
NodeSystemInfo 1=machineID:s 2=systemUUID:s 3=bootID:s 4=kernelVersion:s 5=osImage:s
  6=containerRuntimeVersion:s 7=kubeletVersion:s 8=kubeProxyVersion:s 9=operatingSystem:s 10=architecture:s
  11=swap:M:NodeSwapStatus
NodeSwapStatus 1=capacity:I
ContainerImage 1=names:[s 2=sizeBytes:i
AttachedVolume 1=name:s 2=devicePath:s
NodeConfigStatus 1=assigned:M:NodeConfigSource 2=active:M:NodeConfigSource
  3=lastKnownGood:M:NodeConfigSource 4=error:s
NodeRuntimeHandler 1=name:s 2=features:M:NodeRuntimeHandlerFeatures
NodeRuntimeHandlerFeatures 1=recursiveReadOnlyMounts:B 2=userNamespaces:B
NodeFeatures 1=supplementalGroupsPolicy:B
Namespace 1=metadata:m:ObjectMeta 2=spec:m:NamespaceSpec 3=status:m:NamespaceStatus
NamespaceSpec 1=finalizers:[s
NamespaceStatus 1=phase:s 2=conditions:[m:NamespaceCondition
NamespaceCondition 1=type:s 2=status:s 4=lastTransitionTime:t 5=reason:s 6=message:s
Event 1=metadata:m:ObjectMeta 2=involvedObject:m:ObjectReference 3=reason:s 4=message:s
  5=source:m:EventSource 6=firstTimestamp:t 7=lastTimestamp:t 8=count:i 9=type:s 10=eventTime:t
  11=series:M:EventSeries 12=action:s 13=related:M:ObjectReference 14=reportingComponent:s
  15=reportingInstance:s
ObjectReference 1=kind:s 2=namespace:s 3=name:s 4=uid:s 5=apiVersion:s 6=resourceVersion:s 7=fieldPath:s
EventSource 1=component:s 2=host:s
EventSeries 1=count:i 2=lastObservedTime:t
Service 1=metadata:m:ObjectMeta 2=spec:m:ServiceSpec 3=status:m:ServiceStatus
ServiceSpec 1=ports:[m:ServicePort 2=selector:{s 3=clusterIP:s 4=type:s 5=externalIPs:[s 7=sessionAffinity:s
  8=loadBalancerIP:s 9=loadBalancerSourceRanges:[s 10=externalName:s 11=externalTrafficPolicy:s
  12=healthCheckNodePort:i 13=publishNotReadyAddresses:b 14=sessionAffinityConfig:M:SessionAffinityConfig
  17=ipFamilyPolicy:S 18=clusterIPs:[s 19=ipFamilies:[s 20=allocateLoadBalancerNodePorts:B
  21=loadBalancerClass:S 22=internalTrafficPolicy:S 23=trafficDistribution:S
ServicePort 1=name:s 2=protocol:s 3=port:i 4=targetPort:x 5=nodePort:i 6=appProtocol:S
SessionAffinityConfig 1=clientIP:M:ClientIPConfig
ClientIPConfig 1=timeoutSeconds:I
ServiceStatus 1=loadBalancer:m:LoadBalancerStatus 2=conditions:[m:Condition
LoadBalancerStatus 1=ingress:[m:LoadBalancerIngress
LoadBalancerIngress 1=ip:s 2=hostname:s 3=ipMode:S 4=ports:[m:PortStatus
PortStatus 1=port:i 2=protocol:s 3=error:S
Condition 1=type:s 2=status:s 3=observedGeneration:i 4=lastTransitionTime:t 5=reason:s 6=message:s
Endpoints 1=metadata:m:ObjectMeta 2=subsets:[m:EndpointSubset
EndpointSubset 1=addresses:[m:EndpointAddress 2=notReadyAddresses:[m:EndpointAddress 3=ports:[m:EndpointPort
EndpointAddress 1=ip:s 2=targetRef:M:ObjectReference 3=hostname:s 4=nodeName:S
EndpointPort 1=name:s 2=port:i 3=protocol:s 4=appProtocol:S
ConfigMap 1=metadata:m:ObjectMeta 2=data:{s 3=binaryData:{y 4=immutable:B
Secret 1=metadata:m:ObjectMeta 2=data:{y 3=type:s 4=stringData:{s 5=immutable:B
ServiceAccount 1=metadata:m:ObjectMeta 2=secrets:[m:ObjectReference
  3=imagePullSecrets:[m:LocalObjectReference 4=automountServiceAccountToken:B
ReplicationController 1=metadata:m:ObjectMeta 2=spec:m:ReplicationControllerSpec
  3=status:m:ReplicationControllerStatus
ReplicationControllerSpec 1=replicas:I 2=selector:{s 3=template:M:PodTemplateSpec 4=minReadySeconds:i
PodTemplateSpec 1=metadata:m:ObjectMeta 2=spec:m:PodSpec
ReplicationControllerStatus 1=replicas:i 2=fullyLabeledReplicas:i 3=observedGeneration:i 4=readyReplicas:i
  5=availableReplicas:i 6=conditions:[m:ReplicationControllerCondition
ReplicationControllerCondition 1=type:s 2=status:s 3=lastTransitionTime:t 4=reason:s 5=message:s
PodTemplate 1=metadata:m:ObjectMeta 2=template:m:PodTemplateSpec
PersistentVolume 1=metadata:m:ObjectMeta 2=spec:m:PersistentVolumeSpec 3=status:m:PersistentVolumeStatus
PersistentVolumeSpec 1=capacity:{q 2=:m:PersistentVolumeSource 3=accessModes:[s 4=claimRef:M:ObjectReference
  5=persistentVolumeReclaimPolicy:s 6=storageClassName:s 7=mountOptions:[s 8=volumeMode:S
  9=nodeAffinity:M:VolumeNodeAffinity 10=volumeAttributesClassName:S
PersistentVolumeSource 1=gcePersistentDisk:M:GCEPersistentDiskVolumeSource
  2=awsElasticBlockStore:M:AWSElasticBlockStoreVolumeSource 3=hostPath:M:HostPathVolumeSource
  4=glusterfs:M:GlusterfsPersistentVolumeSource 5=nfs:M:NFSVolumeSource 6=rbd:M:RBDPersistentVolumeSource
  7=iscsi:M:ISCSIPersistentVolumeSource 8=cinder:M:CinderPersistentVolumeSource
  9=cephfs:M:CephFSPersistentVolumeSource 10=fc:M:FCVolumeSource 11=flocker:M:FlockerVolumeSource
  12=flexVolume:M:FlexPersistentVolumeSource 13=azureFile:M:AzureFilePersistentVolumeSource
  14=vsphereVolume:M:VsphereVirtualDiskVolumeSource 15=quobyte:M:QuobyteVolumeSource
  16=azureDisk:M:AzureDiskVolumeSource 17=photonPersistentDisk:M:PhotonPersistentDiskVolumeSource
  18=portworxVolume:M:PortworxVolumeSource 19=scaleIO:M:ScaleIOPersistentVolumeSource
  20=local:M:LocalVolumeSource 21=storageos:M:StorageOSPersistentVolumeSource
  22=csi:M:CSIPersistentVolumeSource
GlusterfsPersistentVolumeSource 1=endpoints:s 2=path:s 3=readOnly:b 4=endpointsNamespace:S
RBDPersistentVolumeSource 1=monitors:[s 2=image:s 3=fsType:s 4=pool:s 5=user:s 6=keyring:s
  7=secretRef:M:SecretReference 8=readOnly:b
SecretReference 1=name:s 2=namespace:s
ISCSIPersistentVolumeSource 1=targetPortal:s 2=iqn:s 3=lun:i 4=iscsiInterface:s 5=fsType:s 6=readOnly:b
  7=portals:[s 8=chapAuthDiscovery:b 10=secretRef:M:SecretReference 11=chapAuthSession:b 12=initiatorName:S
CinderPersistentVolumeSource 1=volumeID:s 2=fsType:s 3=readOnly:b 4=secretRef:M:SecretReference
CephFSPersistentVolumeSource 1=monitors:[s 2=path:s 3=user:s 4=secretFile:s 5=secretRef:M:SecretReference
  6=readOnly:b
FlexPersistentVolumeSource 1=driver:s 2=fsType:s 3=secretRef:M:SecretReference 4=readOnly:b 5=options:{s
AzureFilePersistentVolumeSource 1=secretName:s 2=shareName:s 3=readOnly:b 4=secretNamespace:S
ScaleIOPersistentVolumeSource 1=gateway:s 2=system:s 3=secretRef:M:SecretReference 4=sslEnabled:b
  5=protectionDomain:s 6=storagePool:s 7=storageMode:s 8=volumeName:s 9=fsType:s 10=readOnly:b
LocalVolumeSource 1=path:s 2=fsType:S
StorageOSPersistentVolumeSource 1=volumeName:s 2=volumeNamespace:s 3=fsType:s 4=readOnly:b
  5=secretRef:M:ObjectReference
CSIPersistentVolumeSource 1=driver:s 2=volumeHandle:s 3=readOnly:b 4=fsType:s 5=volumeAttributes:{s
  6=controllerPublishSecretRef:M:SecretReference 7=nodeStageSecretRef:M:SecretReference
  8=nodePublishSecretRef:M:SecretReference 9=controllerExpandSecretRef:M:SecretReference
  10=nodeExpandSecretRef:M:SecretReference
VolumeNodeAffinity 1=required:M:NodeSelector
PersistentVolumeStatus 1=phase:s 2=message:s 3=reason:s 4=lastPhaseTransitionTime:T
PersistentVolumeClaim 1=metadata:m:ObjectMeta 2=spec:m:PersistentVolumeClaimSpec
  3=status:m:PersistentVolumeClaimStatus
PersistentVolumeClaimStatus 1=phase:s 2=accessModes:[s 3=capacity:{q
  4=conditions:[m:PersistentVolumeClaimCondition 5=allocatedResources:{q 7=allocatedResourceStatuses:{s
  8=currentVolumeAttributesClassName:S 9=modifyVolumeStatus:M:ModifyVolumeStatus
PersistentVolumeClaimCondition 1=type:s 2=status:s 3=lastProbeTime:t 4=lastTransitionTime:t 5=reason:s
  6=message:s
ModifyVolumeStatus 1=targetVolumeAttributesClassName:s 2=status:s
LimitRange 1=metadata:m:ObjectMeta 2=spec:m:LimitRangeSpec
LimitRangeSpec 1=limits:[m:LimitRangeItem
LimitRangeItem 1=type:s 2=max:{q 3=min:{q 4=default:{q 5=defaultRequest:{q 6=maxLimitRequestRatio:{q
ResourceQuota 1=metadata:m:ObjectMeta 2=spec:m:ResourceQuotaSpec 3=status:m:ResourceQuotaStatus
ResourceQuotaSpec 1=hard:{q 2=scopes:[s 3=scopeSelector:M:ScopeSelector
ScopeSelector 1=matchExpressions:[m:ScopedResourceSelectorRequirement
ScopedResourceSelectorRequirement 1=scopeName:s 2=operator:s 3=values:[s
ResourceQuotaStatus 1=hard:{q 2=used:{q
Binding 1=metadata:m:ObjectMeta 2=target:m:ObjectReference
DeleteOptions 1=gracePeriodSeconds:I 2=preconditions:M:Preconditions 3=orphanDependents:B
  4=propagationPolicy:S 5=dryRun:[s 6=ignoreStoreReadErrorWithClusterBreakingPotential:B
Preconditions 1=uid:S 2=resourceVersion:S
TopologySelectorTerm 1=matchLabelExpressions:[m:TopologySelectorLabelRequirement
TopologySelectorLabelRequirement 1=key:s 2=values:[s
FieldSelectorRequirement 1=key:s 2=operator:s 3=values:[s
"""
