package main

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// recordedWrites records the scheduler's writes to the API server without performing them, so that evaluations are independent.
type recordedWrites struct {
	updated  []runtime.Object       // ResourceClaims that were created, allocated or deallocated
	patched  []types.NamespacedName // pods with a cleared nomination: the only status patch while PostFilter runs
	extended json.RawMessage        // status of a pod's claim for extended resources
	created  func(runtime.Object)   // is called with each created ResourceClaim
	suffix   string                 // of the names and UIDs of created claims
}

func (w *recordedWrites) client() *fake.Clientset {
	client := &fake.Clientset{}
	client.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action := action.(type) {
		case clienttesting.UpdateAction:
			object := action.GetObject().DeepCopyObject()
			if claim, ok := object.(*resourcev1.ResourceClaim); ok && claim.Name == "" {
				claim.Name, claim.UID = claim.GenerateName+"created"+w.suffix, types.UID("uid:created"+w.suffix) // by the API server
				claim.ResourceVersion = "1"
				if w.created != nil {
					w.created(claim.DeepCopy())
				}
			}
			w.updated = append(w.updated, object)
			return true, object.DeepCopyObject(), nil
		case clienttesting.PatchAction:
			if clearsNomination(action) {
				w.patched = append(w.patched, types.NamespacedName{Namespace: action.GetNamespace(), Name: action.GetName()})
			}
			if extended := extendedStatus(action.GetPatch()); extended != nil {
				w.extended = extended
			}
			if action.GetResource().Resource == "resourceclaims" {
				return true, &resourcev1.ResourceClaim{}, nil
			}
			return true, &v1.Pod{}, nil
		}
		return true, nil, nil
	})
	return client
}

func clearsNomination(action clienttesting.PatchAction) bool {
	var patch struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	if action.GetResource().Resource != "pods" || json.Unmarshal(action.GetPatch(), &patch) != nil {
		return false
	}
	value, named := patch.Status["nominatedNodeName"]
	return named && string(value) == "null"
}
