package main

import (
	"context"
	"fmt"
	"reflect"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// cluster is a kube-scheduler with all objects of a document in its informers. Its loops are not started: each pod is evaluated by a call.
type cluster struct {
	*scheduler.Scheduler
	objects   []runtime.Object
	informers map[reflect.Type]*staticInformer
	writes    *recordedWrites
	version   int // of the object changed last
	placed    int // number of pods that were placed
}

// firstChange is a resource version above those of the objects, which are revisions of etcd.
const firstChange = 1 << 40

func newCluster(ctx context.Context, objects []runtime.Object, config *profiles) (*cluster, error) {
	written := &recordedWrites{}
	client := written.client()
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &cluster{objects: objects, informers: staticInformers(factory, objects), writes: written, version: firstChange}
	recorder := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	sched, err := scheduler.New(ctx, client, factory, nil, recorder, options(config)...)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	c.Scheduler = sched
	for _, profile := range sched.Profiles {
		if plugin := preemptionOf(profile); plugin != nil {
			// Victims are read from the dry run, which finds the same ones, so that evaluating a pod does not change the cluster.
			plugin.Executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) (bool, error) {
				return true, nil
			}
		}
	}
	return c, nil
}

// preemptionOf is the profile's DefaultPreemption; nil if it is not a PostFilter plugin of the profile.
func preemptionOf(profile framework.Framework) *defaultpreemption.DefaultPreemption {
	for _, enabled := range profile.ListPlugins().PostFilter.Enabled {
		for _, plugin := range profile.EnqueueExtensions() {
			if found, ok := plugin.(*defaultpreemption.DefaultPreemption); ok && enabled.Name == found.Name() {
				return found
			}
		}
	}
	return nil
}

// profileOf returns the framework that schedules this pod.
func (c *cluster) profileOf(pod *v1.Pod) (framework.Framework, error) {
	profile, ok := c.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("profile not found for scheduler name %q", pod.Spec.SchedulerName) // kube-scheduler's own text
	}
	return profile, nil
}

// refreshed updates the snapshot of a profile from the cache, as at the start of each scheduling cycle.
func (c *cluster) refreshed(ctx context.Context, profile framework.Framework) (*internalcache.Snapshot, error) {
	snapshot, ok := profile.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return nil, fmt.Errorf("the snapshot is a %T", profile.SnapshotSharedLister())
	}
	return snapshot, c.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot)
}

func (c *cluster) podInformer() *staticInformer {
	return c.informers[reflect.TypeOf(&v1.Pod{})]
}

// pod looks up "namespace/name", also among terminated pods.
func (c *cluster) pod(name string) (*v1.Pod, bool) {
	if found, ok, _ := c.podInformer().GetIndexer().GetByKey(name); ok {
		pod, isPod := found.(*v1.Pod)
		return pod, isPod
	}
	for _, object := range c.objects {
		if pod, ok := object.(*v1.Pod); ok && terminated(pod) && nameOf(pod) == name {
			return pod, true
		}
	}
	return nil, false
}

// unassigned returns the names of the pods without a node, in the order of the objects.
func (c *cluster) unassigned() []string {
	var names []string
	for _, object := range c.objects {
		if pod, ok := object.(*v1.Pod); ok && pod.Spec.NodeName == "" {
			names = append(names, nameOf(pod))
		}
	}
	return names
}

// changed updates an object in its informer, as a watch would.
func (c *cluster) changed(to runtime.Object) error {
	accessor, err := meta.Accessor(to)
	if err != nil {
		return err
	}
	c.version++
	accessor.SetResourceVersion(strconv.Itoa(c.version)) // updates without a new version are ignored
	informer, ok := c.informers[reflect.TypeOf(to)]
	if !ok {
		return fmt.Errorf("no informer for %T", to)
	}
	from, exists, err := informer.GetIndexer().Get(to)
	if err != nil || !exists {
		return err
	}
	informer.update(from, to)
	return nil
}
