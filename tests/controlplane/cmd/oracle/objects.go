package main

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// decodeObjects decodes the objects of a document in their order. Kinds that client-go does not have (custom resources) are
// skipped, as no in-tree plugin reads them.
func decodeObjects(documents []json.RawMessage) ([]runtime.Object, error) {
	var objects []runtime.Object
	for number, text := range documents {
		decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", number, err)
		}
		accessor, err := meta.Accessor(decoded)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", number, err)
		}
		if accessor.GetResourceVersion() == "" {
			accessor.SetResourceVersion("1") // the assume cache compares versions
		}
		if pod, ok := decoded.(*v1.Pod); ok {
			complete(pod)
		}
		objects = append(objects, decoded)
	}
	return objects, nil
}

// complete sets fields that the API server sets on every pod, and that kube-scheduler needs.
func complete(pod *v1.Pod) {
	if pod.Namespace == "" {
		pod.Namespace = v1.NamespaceDefault
	}
	if pod.UID == "" {
		pod.UID = types.UID("uid:" + nameOf(pod))
	}
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = v1.DefaultSchedulerName
	}
}

// terminated reports that the pod has finished: kube-scheduler's informer excludes these by field selector.
func terminated(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
