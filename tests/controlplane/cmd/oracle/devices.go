package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// mostBindings is the number of nodes that a pod is bound to by way of trial: the first ones by name.
const mostBindings = 4

// deviceBinding is what DynamicResources writes to bind a pod to a node.
type deviceBinding struct {
	Message string          `json:"message"`
	Waits   bool            `json:"waits"` // for binding conditions, which no driver sets here
	Claims  []writtenClaim  `json:"claims"`
	Pod     json.RawMessage `json:"pod,omitempty"` // status.extendedResourceClaimStatus
}

// writtenClaim has the fields of a ResourceClaim that the scheduler writes.
type writtenClaim struct {
	Name            string                                      `json:"name"`
	GenerateName    string                                      `json:"generateName"`
	Finalizers      []string                                    `json:"finalizers"`
	Annotations     map[string]string                           `json:"annotations"`
	OwnerReferences []metav1.OwnerReference                     `json:"ownerReferences"`
	Requests        []resourcev1.DeviceRequest                  `json:"requests"`
	Allocation      *resourcev1.AllocationResult                `json:"allocation"`
	ReservedFor     []resourcev1.ResourceClaimConsumerReference `json:"reservedFor"`
}

// devicesOf is the profile's DynamicResources; nil without it.
func devicesOf(profile framework.Framework) *dynamicresources.DynamicResources {
	for _, plugin := range profile.EnqueueExtensions() {
		if found, ok := plugin.(*dynamicresources.DynamicResources); ok {
			return found
		}
	}
	return nil
}

// bindDevices runs Reserve and PreBind of DynamicResources on the first feasible nodes, and takes the results back.
func (e *evaluation) bindDevices(ctx context.Context, feasible []fwk.NodeInfo) error {
	plugin := devicesOf(e.profile)
	if plugin == nil {
		return nil
	}
	e.report.Bindings = make(map[string]*deviceBinding)
	byName := make(map[string]fwk.NodeInfo, len(feasible))
	var names []string
	for _, node := range feasible {
		byName[node.Node().Name] = node
		names = append(names, node.Node().Name)
	}
	names = inOrder(names)
	for _, name := range names[:min(len(names), mostBindings)] {
		binding, err := e.bindDevicesTo(ctx, plugin, byName[name])
		if err != nil {
			return err
		}
		if binding.Message == "" && !binding.Waits && len(binding.Claims) == 0 {
			continue
		}
		e.report.Bindings[name] = binding
	}
	return nil
}

// bindDevicesTo starts with PreFilter, since PreBind changes the plugin's state. The context of PreBind is cancelled: it ends the
// waits for drivers and for watches, and nothing else reads it.
func (e *evaluation) bindDevicesTo(ctx context.Context, plugin *dynamicresources.DynamicResources, node fwk.NodeInfo) (*deviceBinding, error) {
	var created []runtime.Object
	state, name, pod := newState(), node.Node().Name, e.pod.DeepCopy()
	if _, status, _ := e.profile.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return nil, errors.New("oracle: PreFilter has another result when repeated: " + status.Message())
	}
	if status := e.profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node); !status.IsSuccess() {
		return nil, errors.New("oracle: Filter has another result when repeated: " + status.Message())
	}
	informer := e.informers[reflect.TypeOf(&resourcev1.ResourceClaim{})]
	*e.writes = recordedWrites{created: func(claim runtime.Object) {
		informer.add(claim)
		created = append(created, claim)
	}}
	status := plugin.Reserve(ctx, state, pod, name)
	if status.IsSuccess() {
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		status = plugin.PreBind(cancelled, state, pod, name)
	}
	binding := e.writes.binding(status)
	plugin.Unreserve(ctx, state, pod, name)
	for _, written := range e.writes.updated {
		if claim, ok := written.(*resourcev1.ResourceClaim); ok {
			e.profile.SharedDRAManager().ResourceClaims().AssumedClaimRestore(claim.Namespace, claim.Name)
		}
	}
	for _, claim := range created {
		informer.remove(claim)
	}
	*e.writes = recordedWrites{}
	return binding, nil
}

// preBindDevices runs PreBind of DynamicResources. A wait for a driver ends at once, as if that had set its conditions.
func (e *evaluation) preBindDevices(ctx context.Context, pod *v1.Pod, node string) *fwk.Status {
	plugin := devicesOf(e.profile)
	if plugin == nil {
		return nil
	}
	informer := e.informers[reflect.TypeOf(&resourcev1.ResourceClaim{})]
	e.writes.suffix = strconv.Itoa(e.placed)
	e.writes.created = func(claim runtime.Object) { informer.add(claim) }
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	status := plugin.PreBind(cancelled, e.state, pod, node)
	if status.IsSuccess() || strings.Contains(status.Message(), context.Canceled.Error()) {
		return nil
	}
	return fwk.NewStatus(status.Code(), fmt.Sprintf("running PreBind plugin %q: %s", plugin.Name(), status.Message()))
}

// devices returns the devices of each written claim, `driver/pool/device`, by its name; a generated one by its prefix.
func (w *recordedWrites) devices() map[string][]string {
	found := make(map[string][]string)
	for _, object := range w.updated {
		claim, ok := object.(*resourcev1.ResourceClaim)
		if !ok {
			continue
		}
		name := claim.GenerateName
		if name == "" {
			name = claim.Name
		}
		found[name] = []string{}
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			found[name] = append(found[name], result.Driver+"/"+result.Pool+"/"+result.Device)
		}
	}
	return found
}

// binding returns the last state of each written claim in the order of the first writes.
func (w *recordedWrites) binding(status *fwk.Status) *deviceBinding {
	result := &deviceBinding{Claims: []writtenClaim{}, Pod: w.extended}
	if !status.IsSuccess() {
		result.Waits = strings.Contains(status.Message(), context.Canceled.Error())
		if !result.Waits {
			result.Message = status.Message()
		}
	}
	last := make(map[string]int)
	for _, object := range w.updated {
		claim, ok := object.(*resourcev1.ResourceClaim)
		if !ok {
			continue
		}
		written := writtenClaim{
			claim.Name, claim.GenerateName, claim.Finalizers, claim.Annotations, claim.OwnerReferences,
			claim.Spec.Devices.Requests, claim.Status.Allocation, claim.Status.ReservedFor,
		}
		if claim.GenerateName == "" {
			written.Requests = nil // the scheduler does not write those of users
		}
		if place, known := last[claim.Name]; known {
			result.Claims[place] = written
			continue
		}
		last[claim.Name] = len(result.Claims)
		result.Claims = append(result.Claims, written)
	}
	return result
}

// extendedStatus returns status.extendedResourceClaimStatus of a patch of a pod; nil without it.
func extendedStatus(patch []byte) json.RawMessage {
	var read struct {
		Status struct {
			Extended json.RawMessage `json:"extendedResourceClaimStatus"`
		} `json:"status"`
	}
	if json.Unmarshal(patch, &read) != nil {
		return nil
	}
	return read.Status.Extended
}
