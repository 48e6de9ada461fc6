package main

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// recordedWrites records the scheduler's writes to the API server without performing them, so that evaluations are independent.
type recordedWrites struct {
	updated []runtime.Object       // ResourceClaims that were deallocated
	patched []types.NamespacedName // pods with a cleared nomination: the only status patch while PostFilter runs
}

func (w *recordedWrites) client() *fake.Clientset {
	client := &fake.Clientset{}
	client.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action := action.(type) {
		case clienttesting.UpdateAction:
			w.updated = append(w.updated, action.GetObject())
			return true, action.GetObject(), nil
		case clienttesting.PatchAction:
			if clearsNomination(action) {
				w.patched = append(w.patched, types.NamespacedName{Namespace: action.GetNamespace(), Name: action.GetName()})
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
