package main

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
)

// withRules returns the slices with the taints of the rules, in the given order, as kube-scheduler's tracker does.
func withRules(ctx context.Context, slices []*resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule) ([]*resourceapi.ResourceSlice, error) {
	if len(rules) == 0 {
		return slices, nil
	}
	objects := make([]runtime.Object, 0, len(slices)+len(rules))
	for _, slice := range slices {
		objects = append(objects, slice)
	}
	for _, rule := range rules {
		objects = append(objects, rule)
	}
	client := fake.NewSimpleClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	tracked, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules: true,
		SliceInformer:          factory.Resource().V1().ResourceSlices(),
		TaintInformer:          factory.Resource().V1().DeviceTaintRules(),
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	select {
	case <-tracked.HasSyncedChecker().Done():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	listed, err := tracked.ListPatchedResourceSlices()
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*resourceapi.ResourceSlice, len(listed))
	for _, slice := range listed {
		byName[slice.Name] = slice
	}
	patched := make([]*resourceapi.ResourceSlice, len(slices))
	for i, slice := range slices {
		if patched[i] = byName[slice.Name]; patched[i] == nil {
			return nil, fmt.Errorf("slice %s is not tracked", slice.Name)
		}
	}
	return patched, nil
}
