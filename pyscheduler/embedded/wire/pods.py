"""Protobuf fields of pods and their parts, and of metadata.

Generated from the struct tags of k8s.io/api v0.36.3 and k8s.io/apimachinery v0.36.3; `table.py` explains the notation.
"""

from __future__ import annotations

PODS = """
Pod 1=metadata:m:ObjectMeta 2=spec:m:PodSpec 3=status:m:PodStatus
ObjectMeta 1=name:s 2=generateName:s 3=namespace:s 4=selfLink:s 5=uid:s 6=resourceVersion:s 7=generation:i
  8=creationTimestamp:t 9=deletionTimestamp:T 10=deletionGracePeriodSeconds:I 11=labels:{s 12=annotations:{s
  13=ownerReferences:[m:OwnerReference 14=finalizers:[s 17=managedFields:[m:ManagedFieldsEntry
OwnerReference 1=kind:s 3=name:s 4=uid:s 5=apiVersion:s 6=controller:B 7=blockOwnerDeletion:B
ManagedFieldsEntry 1=manager:s 2=operation:s 3=apiVersion:s 4=time:T 6=fieldsType:s 7=fieldsV1:R
  8=subresource:s
PodSpec 1=volumes:[m:Volume 2=containers:[m:Container 3=restartPolicy:s 4=terminationGracePeriodSeconds:I
  5=activeDeadlineSeconds:I 6=dnsPolicy:s 7=nodeSelector:{s 8=serviceAccountName:s 9=serviceAccount:s
  10=nodeName:s 11=hostNetwork:b 12=hostPID:b 13=hostIPC:b 14=securityContext:M:PodSecurityContext
  15=imagePullSecrets:[m:LocalObjectReference 16=hostname:s 17=subdomain:s 18=affinity:M:Affinity
  19=schedulerName:s 20=initContainers:[m:Container 21=automountServiceAccountToken:B
  22=tolerations:[m:Toleration 23=hostAliases:[m:HostAlias 24=priorityClassName:s 25=priority:I
  26=dnsConfig:M:PodDNSConfig 27=shareProcessNamespace:B 28=readinessGates:[m:PodReadinessGate
  29=runtimeClassName:S 30=enableServiceLinks:B 31=preemptionPolicy:S 32=overhead:{q
  33=topologySpreadConstraints:[m:TopologySpreadConstraint 34=ephemeralContainers:[m:EphemeralContainer
  35=setHostnameAsFQDN:B 36=os:M:PodOS 37=hostUsers:B 38=schedulingGates:[m:PodSchedulingGate
  39=resourceClaims:[m:PodResourceClaim 40=resources:M:ResourceRequirements 41=hostnameOverride:S
  43=schedulingGroup:M:PodSchedulingGroup
Volume 1=name:s 2=:m:VolumeSource
VolumeSource 1=hostPath:M:HostPathVolumeSource 2=emptyDir:M:EmptyDirVolumeSource
  3=gcePersistentDisk:M:GCEPersistentDiskVolumeSource
  4=awsElasticBlockStore:M:AWSElasticBlockStoreVolumeSource 5=gitRepo:M:GitRepoVolumeSource
  6=secret:M:SecretVolumeSource 7=nfs:M:NFSVolumeSource 8=iscsi:M:ISCSIVolumeSource
  9=glusterfs:M:GlusterfsVolumeSource 10=persistentVolumeClaim:M:PersistentVolumeClaimVolumeSource
  11=rbd:M:RBDVolumeSource 12=flexVolume:M:FlexVolumeSource 13=cinder:M:CinderVolumeSource
  14=cephfs:M:CephFSVolumeSource 15=flocker:M:FlockerVolumeSource 16=downwardAPI:M:DownwardAPIVolumeSource
  17=fc:M:FCVolumeSource 18=azureFile:M:AzureFileVolumeSource 19=configMap:M:ConfigMapVolumeSource
  20=vsphereVolume:M:VsphereVirtualDiskVolumeSource 21=quobyte:M:QuobyteVolumeSource
  22=azureDisk:M:AzureDiskVolumeSource 23=photonPersistentDisk:M:PhotonPersistentDiskVolumeSource
  24=portworxVolume:M:PortworxVolumeSource 25=scaleIO:M:ScaleIOVolumeSource
  26=projected:M:ProjectedVolumeSource 27=storageos:M:StorageOSVolumeSource 28=csi:M:CSIVolumeSource
  29=ephemeral:M:EphemeralVolumeSource 30=image:M:ImageVolumeSource
HostPathVolumeSource 1=path:s 2=type:S
EmptyDirVolumeSource 1=medium:s 2=sizeLimit:Q
GCEPersistentDiskVolumeSource 1=pdName:s 2=fsType:s 3=partition:i 4=readOnly:b
AWSElasticBlockStoreVolumeSource 1=volumeID:s 2=fsType:s 3=partition:i 4=readOnly:b
GitRepoVolumeSource 1=repository:s 2=revision:s 3=directory:s
SecretVolumeSource 1=secretName:s 2=items:[m:KeyToPath 3=defaultMode:I 4=optional:B
KeyToPath 1=key:s 2=path:s 3=mode:I
NFSVolumeSource 1=server:s 2=path:s 3=readOnly:b
ISCSIVolumeSource 1=targetPortal:s 2=iqn:s 3=lun:i 4=iscsiInterface:s 5=fsType:s 6=readOnly:b 7=portals:[s
  8=chapAuthDiscovery:b 10=secretRef:M:LocalObjectReference 11=chapAuthSession:b 12=initiatorName:S
LocalObjectReference 1=name:s
GlusterfsVolumeSource 1=endpoints:s 2=path:s 3=readOnly:b
PersistentVolumeClaimVolumeSource 1=claimName:s 2=readOnly:b
RBDVolumeSource 1=monitors:[s 2=image:s 3=fsType:s 4=pool:s 5=user:s 6=keyring:s
  7=secretRef:M:LocalObjectReference 8=readOnly:b
FlexVolumeSource 1=driver:s 2=fsType:s 3=secretRef:M:LocalObjectReference 4=readOnly:b 5=options:{s
CinderVolumeSource 1=volumeID:s 2=fsType:s 3=readOnly:b 4=secretRef:M:LocalObjectReference
CephFSVolumeSource 1=monitors:[s 2=path:s 3=user:s 4=secretFile:s 5=secretRef:M:LocalObjectReference
  6=readOnly:b
FlockerVolumeSource 1=datasetName:s 2=datasetUUID:s
DownwardAPIVolumeSource 1=items:[m:DownwardAPIVolumeFile 2=defaultMode:I
DownwardAPIVolumeFile 1=path:s 2=fieldRef:M:ObjectFieldSelector 3=resourceFieldRef:M:ResourceFieldSelector
  4=mode:I
ObjectFieldSelector 1=apiVersion:s 2=fieldPath:s
ResourceFieldSelector 1=containerName:s 2=resource:s 3=divisor:q
FCVolumeSource 1=targetWWNs:[s 2=lun:I 3=fsType:s 4=readOnly:b 5=wwids:[s
AzureFileVolumeSource 1=secretName:s 2=shareName:s 3=readOnly:b
ConfigMapVolumeSource 1=:m:LocalObjectReference 2=items:[m:KeyToPath 3=defaultMode:I 4=optional:B
VsphereVirtualDiskVolumeSource 1=volumePath:s 2=fsType:s 3=storagePolicyName:s 4=storagePolicyID:s
QuobyteVolumeSource 1=registry:s 2=volume:s 3=readOnly:b 4=user:s 5=group:s 6=tenant:s
AzureDiskVolumeSource 1=diskName:s 2=diskURI:s 3=cachingMode:S 4=fsType:S 5=readOnly:B 6=kind:S
PhotonPersistentDiskVolumeSource 1=pdID:s 2=fsType:s
ProjectedVolumeSource 1=sources:[m:VolumeProjection 2=defaultMode:I
VolumeProjection 1=secret:M:SecretProjection 2=downwardAPI:M:DownwardAPIProjection
  3=configMap:M:ConfigMapProjection 4=serviceAccountToken:M:ServiceAccountTokenProjection
  5=clusterTrustBundle:M:ClusterTrustBundleProjection 6=podCertificate:M:PodCertificateProjection
SecretProjection 1=:m:LocalObjectReference 2=items:[m:KeyToPath 4=optional:B
DownwardAPIProjection 1=items:[m:DownwardAPIVolumeFile
ConfigMapProjection 1=:m:LocalObjectReference 2=items:[m:KeyToPath 4=optional:B
ServiceAccountTokenProjection 1=audience:s 2=expirationSeconds:I 3=path:s
ClusterTrustBundleProjection 1=name:S 2=signerName:S 3=labelSelector:M:LabelSelector 4=path:s 5=optional:B
LabelSelector 1=matchLabels:{s 2=matchExpressions:[m:LabelSelectorRequirement
LabelSelectorRequirement 1=key:s 2=operator:s 3=values:[s
PodCertificateProjection 1=signerName:s 2=keyType:s 3=maxExpirationSeconds:I 4=credentialBundlePath:s
  5=keyPath:s 6=certificateChainPath:s 7=userAnnotations:{s
PortworxVolumeSource 1=volumeID:s 2=fsType:s 3=readOnly:b
ScaleIOVolumeSource 1=gateway:s 2=system:s 3=secretRef:M:LocalObjectReference 4=sslEnabled:b
  5=protectionDomain:s 6=storagePool:s 7=storageMode:s 8=volumeName:s 9=fsType:s 10=readOnly:b
StorageOSVolumeSource 1=volumeName:s 2=volumeNamespace:s 3=fsType:s 4=readOnly:b
  5=secretRef:M:LocalObjectReference
CSIVolumeSource 1=driver:s 2=readOnly:B 3=fsType:S 4=volumeAttributes:{s
  5=nodePublishSecretRef:M:LocalObjectReference
EphemeralVolumeSource 1=volumeClaimTemplate:M:PersistentVolumeClaimTemplate
PersistentVolumeClaimTemplate 1=metadata:m:ObjectMeta 2=spec:m:PersistentVolumeClaimSpec
PersistentVolumeClaimSpec 1=accessModes:[s 2=resources:m:VolumeResourceRequirements 3=volumeName:s
  4=selector:M:LabelSelector 5=storageClassName:S 6=volumeMode:S 7=dataSource:M:TypedLocalObjectReference
  8=dataSourceRef:M:TypedObjectReference 9=volumeAttributesClassName:S
VolumeResourceRequirements 1=limits:{q 2=requests:{q
TypedLocalObjectReference 1=apiGroup:S 2=kind:s 3=name:s
TypedObjectReference 1=apiGroup:S 2=kind:s 3=name:s 4=namespace:S
ImageVolumeSource 1=reference:s 2=pullPolicy:s
Container 1=name:s 2=image:s 3=command:[s 4=args:[s 5=workingDir:s 6=ports:[m:ContainerPort 7=env:[m:EnvVar
  8=resources:m:ResourceRequirements 9=volumeMounts:[m:VolumeMount 10=livenessProbe:M:Probe
  11=readinessProbe:M:Probe 12=lifecycle:M:Lifecycle 13=terminationMessagePath:s 14=imagePullPolicy:s
  15=securityContext:M:SecurityContext 16=stdin:b 17=stdinOnce:b 18=tty:b 19=envFrom:[m:EnvFromSource
  20=terminationMessagePolicy:s 21=volumeDevices:[m:VolumeDevice 22=startupProbe:M:Probe
  23=resizePolicy:[m:ContainerResizePolicy 24=restartPolicy:S 25=restartPolicyRules:[m:ContainerRestartRule
ContainerPort 1=name:s 2=hostPort:i 3=containerPort:i 4=protocol:s 5=hostIP:s
EnvFromSource 1=prefix:s 2=configMapRef:M:ConfigMapEnvSource 3=secretRef:M:SecretEnvSource
ConfigMapEnvSource 1=:m:LocalObjectReference 2=optional:B
SecretEnvSource 1=:m:LocalObjectReference 2=optional:B
EnvVar 1=name:s 2=value:s 3=valueFrom:M:EnvVarSource
EnvVarSource 1=fieldRef:M:ObjectFieldSelector 2=resourceFieldRef:M:ResourceFieldSelector
  3=configMapKeyRef:M:ConfigMapKeySelector 4=secretKeyRef:M:SecretKeySelector 5=fileKeyRef:M:FileKeySelector
ConfigMapKeySelector 1=:m:LocalObjectReference 2=key:s 3=optional:B
SecretKeySelector 1=:m:LocalObjectReference 2=key:s 3=optional:B
FileKeySelector 1=volumeName:s 2=path:s 3=key:s 4=optional:B
ResourceRequirements 1=limits:{q 2=requests:{q 3=claims:[m:ResourceClaim
ResourceClaim 1=name:s 2=request:s
ContainerResizePolicy 1=resourceName:s 2=restartPolicy:s
ContainerRestartRule 1=action:s 2=exitCodes:M:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes 1=operator:s 2=values:[i
VolumeMount 1=name:s 2=readOnly:b 3=mountPath:s 4=subPath:s 5=mountPropagation:S 6=subPathExpr:s
  7=recursiveReadOnly:S
VolumeDevice 1=name:s 2=devicePath:s
Probe 1=:m:ProbeHandler 2=initialDelaySeconds:i 3=timeoutSeconds:i 4=periodSeconds:i 5=successThreshold:i
  6=failureThreshold:i 7=terminationGracePeriodSeconds:I
ProbeHandler 1=exec:M:ExecAction 2=httpGet:M:HTTPGetAction 3=tcpSocket:M:TCPSocketAction 4=grpc:M:GRPCAction
ExecAction 1=command:[s
HTTPGetAction 1=path:s 2=port:x 3=host:s 4=scheme:s 5=httpHeaders:[m:HTTPHeader
HTTPHeader 1=name:s 2=value:s
TCPSocketAction 1=port:x 2=host:s
GRPCAction 1=port:i 2=service:S
Lifecycle 1=postStart:M:LifecycleHandler 2=preStop:M:LifecycleHandler 3=stopSignal:S
LifecycleHandler 1=exec:M:ExecAction 2=httpGet:M:HTTPGetAction 3=tcpSocket:M:TCPSocketAction
  4=sleep:M:SleepAction
SleepAction 1=seconds:i
SecurityContext 1=capabilities:M:Capabilities 2=privileged:B 3=seLinuxOptions:M:SELinuxOptions 4=runAsUser:I
  5=runAsNonRoot:B 6=readOnlyRootFilesystem:B 7=allowPrivilegeEscalation:B 8=runAsGroup:I 9=procMount:S
  10=windowsOptions:M:WindowsSecurityContextOptions 11=seccompProfile:M:SeccompProfile
  12=appArmorProfile:M:AppArmorProfile
Capabilities 1=add:[s 2=drop:[s
SELinuxOptions 1=user:s 2=role:s 3=type:s 4=level:s
WindowsSecurityContextOptions 1=gmsaCredentialSpecName:S 2=gmsaCredentialSpec:S 3=runAsUserName:S
  4=hostProcess:B
SeccompProfile 1=type:s 2=localhostProfile:S
AppArmorProfile 1=type:s 2=localhostProfile:S
EphemeralContainer 1=:m:EphemeralContainerCommon 2=targetContainerName:s
EphemeralContainerCommon 1=name:s 2=image:s 3=command:[s 4=args:[s 5=workingDir:s 6=ports:[m:ContainerPort
  7=env:[m:EnvVar 8=resources:m:ResourceRequirements 9=volumeMounts:[m:VolumeMount 10=livenessProbe:M:Probe
  11=readinessProbe:M:Probe 12=lifecycle:M:Lifecycle 13=terminationMessagePath:s 14=imagePullPolicy:s
  15=securityContext:M:SecurityContext 16=stdin:b 17=stdinOnce:b 18=tty:b 19=envFrom:[m:EnvFromSource
  20=terminationMessagePolicy:s 21=volumeDevices:[m:VolumeDevice 22=startupProbe:M:Probe
  23=resizePolicy:[m:ContainerResizePolicy 24=restartPolicy:S 25=restartPolicyRules:[m:ContainerRestartRule
PodSecurityContext 1=seLinuxOptions:M:SELinuxOptions 2=runAsUser:I 3=runAsNonRoot:B 4=supplementalGroups:[i
  5=fsGroup:I 6=runAsGroup:I 7=sysctls:[m:Sysctl 8=windowsOptions:M:WindowsSecurityContextOptions
  9=fsGroupChangePolicy:S 10=seccompProfile:M:SeccompProfile 11=appArmorProfile:M:AppArmorProfile
  12=supplementalGroupsPolicy:S 13=seLinuxChangePolicy:S
Sysctl 1=name:s 2=value:s
Affinity 1=nodeAffinity:M:NodeAffinity 2=podAffinity:M:PodAffinity 3=podAntiAffinity:M:PodAntiAffinity
NodeAffinity 1=requiredDuringSchedulingIgnoredDuringExecution:M:NodeSelector
  2=preferredDuringSchedulingIgnoredDuringExecution:[m:PreferredSchedulingTerm
NodeSelector 1=nodeSelectorTerms:[m:NodeSelectorTerm
NodeSelectorTerm 1=matchExpressions:[m:NodeSelectorRequirement 2=matchFields:[m:NodeSelectorRequirement
NodeSelectorRequirement 1=key:s 2=operator:s 3=values:[s
PreferredSchedulingTerm 1=weight:i 2=preference:m:NodeSelectorTerm
PodAffinity 1=requiredDuringSchedulingIgnoredDuringExecution:[m:PodAffinityTerm
  2=preferredDuringSchedulingIgnoredDuringExecution:[m:WeightedPodAffinityTerm
PodAffinityTerm 1=labelSelector:M:LabelSelector 2=namespaces:[s 3=topologyKey:s
  4=namespaceSelector:M:LabelSelector 5=matchLabelKeys:[s 6=mismatchLabelKeys:[s
WeightedPodAffinityTerm 1=weight:i 2=podAffinityTerm:m:PodAffinityTerm
PodAntiAffinity 1=requiredDuringSchedulingIgnoredDuringExecution:[m:PodAffinityTerm
  2=preferredDuringSchedulingIgnoredDuringExecution:[m:WeightedPodAffinityTerm
Toleration 1=key:s 2=operator:s 3=value:s 4=effect:s 5=tolerationSeconds:I
HostAlias 1=ip:s 2=hostnames:[s
PodDNSConfig 1=nameservers:[s 2=searches:[s 3=options:[m:PodDNSConfigOption
PodDNSConfigOption 1=name:s 2=value:S
PodReadinessGate 1=conditionType:s
TopologySpreadConstraint 1=maxSkew:i 2=topologyKey:s 3=whenUnsatisfiable:s 4=labelSelector:M:LabelSelector
  5=minDomains:I 6=nodeAffinityPolicy:S 7=nodeTaintsPolicy:S 8=matchLabelKeys:[s
PodOS 1=name:s
PodSchedulingGate 1=name:s
PodResourceClaim 1=name:s 3=resourceClaimName:S 4=resourceClaimTemplateName:S
PodSchedulingGroup 1=podGroupName:S
PodStatus 1=phase:s 2=conditions:[m:PodCondition 3=message:s 4=reason:s 5=hostIP:s 6=podIP:s 7=startTime:T
  8=containerStatuses:[m:ContainerStatus 9=qosClass:s 10=initContainerStatuses:[m:ContainerStatus
  11=nominatedNodeName:s 12=podIPs:[m:PodIP 13=ephemeralContainerStatuses:[m:ContainerStatus 14=resize:s
  15=resourceClaimStatuses:[m:PodResourceClaimStatus 16=hostIPs:[m:HostIP 17=observedGeneration:i
  18=extendedResourceClaimStatus:M:PodExtendedResourceClaimStatus 19=allocatedResources:{q
  20=resources:M:ResourceRequirements
  21=nodeAllocatableResourceClaimStatuses:[m:NodeAllocatableResourceClaimStatus
PodCondition 1=type:s 2=status:s 3=lastProbeTime:t 4=lastTransitionTime:t 5=reason:s 6=message:s
  7=observedGeneration:i
HostIP 1=ip:s
PodIP 1=ip:s
ContainerStatus 1=name:s 2=state:m:ContainerState 3=lastState:m:ContainerState 4=ready:b 5=restartCount:i
  6=image:s 7=imageID:s 8=containerID:s 9=started:B 10=allocatedResources:{q
  11=resources:M:ResourceRequirements 12=volumeMounts:[m:VolumeMountStatus 13=user:M:ContainerUser
  14=allocatedResourcesStatus:[m:ResourceStatus 15=stopSignal:S
ContainerState 1=waiting:M:ContainerStateWaiting 2=running:M:ContainerStateRunning
  3=terminated:M:ContainerStateTerminated
ContainerStateWaiting 1=reason:s 2=message:s
ContainerStateRunning 1=startedAt:t
ContainerStateTerminated 1=exitCode:i 2=signal:i 3=reason:s 4=message:s 5=startedAt:t 6=finishedAt:t
  7=containerID:s
VolumeMountStatus 1=name:s 2=mountPath:s 3=readOnly:b 4=recursiveReadOnly:S 5=volumeStatus:M:VolumeStatus
VolumeStatus 1=image:M:ImageVolumeStatus
ImageVolumeStatus 1=imageRef:s
ContainerUser 1=linux:M:LinuxContainerUser
LinuxContainerUser 1=uid:i 2=gid:i 3=supplementalGroups:[i
ResourceStatus 1=name:s 2=resources:[m:ResourceHealth
ResourceHealth 1=resourceID:s 2=health:s 6=message:S
PodResourceClaimStatus 1=name:s 2=resourceClaimName:S
PodExtendedResourceClaimStatus 1=requestMappings:[m:ContainerExtendedResourceRequest 2=resourceClaimName:s
ContainerExtendedResourceRequest 1=containerName:s 2=resourceName:s 3=requestName:s
NodeAllocatableResourceClaimStatus 1=resourceClaimName:s 2=containers:[s 3=resources:{q
"""
