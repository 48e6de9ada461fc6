package main

import (
	"reflect"
	"sort"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// watchedKinds are the kinds that kube-scheduler watches.
var watchedKinds = []runtime.Object{
	&v1.Pod{}, &v1.Node{}, &v1.Namespace{}, &v1.Service{}, &v1.ReplicationController{},
	&v1.PersistentVolume{}, &v1.PersistentVolumeClaim{},
	&appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &policyv1.PodDisruptionBudget{},
	&storagev1.StorageClass{}, &storagev1.CSINode{}, &storagev1.CSIDriver{}, &storagev1.CSIStorageCapacity{}, &storagev1.VolumeAttachment{},
	&resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{}, &resourcev1.DeviceClass{}, &resourcev1.DeviceTaintRule{},
}

// ordered are the kinds that are listed by name.
var ordered = map[reflect.Type]bool{
	reflect.TypeOf(&policyv1.PodDisruptionBudget{}): true,
	reflect.TypeOf(&storagev1.CSIStorageCapacity{}): true,
}

// staticInformer is an informer with a fixed set of objects that calls its handlers at once, in the caller's goroutine. Real ones
// list, watch and notify later, which takes longer than the whole evaluation and makes the order of events random.
// The embedded informer is never started: only its index is used.
type staticInformer struct {
	cache.SharedIndexInformer
	objects  []any
	sorted   bool
	handlers []cache.ResourceEventHandler
}

// staticInformers puts a staticInformer for each watched kind into the factory, with the objects in the order given.
func staticInformers(factory informers.SharedInformerFactory, objects []runtime.Object) map[reflect.Type]*staticInformer {
	byType := make(map[reflect.Type]*staticInformer, len(watchedKinds))
	for _, example := range watchedKinds {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		unstarted := cache.NewSharedIndexInformer(&cache.ListWatch{}, example, 0, indexers)
		informer := &staticInformer{SharedIndexInformer: unstarted, sorted: ordered[reflect.TypeOf(example)]}
		byType[reflect.TypeOf(example)] = informer
		factory.InformerFor(example, func(clientset.Interface, time.Duration) cache.SharedIndexInformer { return informer })
	}
	for _, object := range objects {
		if pod, ok := object.(*v1.Pod); ok && terminated(pod) {
			continue
		}
		if informer, ok := byType[reflect.TypeOf(object)]; ok {
			informer.objects = append(informer.objects, object)
			_ = informer.GetIndexer().Add(object) // fails only for objects without metadata
		}
	}
	return byType
}

// GetIndexer returns an index that lists objects by name where their order decides, which is random in a real informer: VolumeBinding
// scores the first CSIStorageCapacity that a node has access to, and a pod counts in no budget after the first that it violates.
func (s *staticInformer) GetIndexer() cache.Indexer {
	indexer := s.SharedIndexInformer.GetIndexer()
	if s.sorted {
		return sortedIndexer{indexer}
	}
	return indexer
}

// sortedIndexer lists objects in the order of their keys.
type sortedIndexer struct {
	cache.Indexer
}

func (s sortedIndexer) List() []any {
	keys := s.ListKeys()
	sort.Strings(keys)
	objects := make([]any, 0, len(keys))
	for _, key := range keys {
		if object, exists, err := s.GetByKey(key); exists && err == nil {
			objects = append(objects, object)
		}
	}
	return objects
}

// AddEventHandler calls the handler for all existing objects.
func (s *staticInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.handlers = append(s.handlers, handler)
	for _, object := range s.objects {
		handler.OnAdd(object, true)
	}
	return s.SharedIndexInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{})
}

// AddEventHandlerWithResyncPeriod never resyncs: no event is ever missed here.
func (s *staticInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(handler)
}

// AddEventHandlerWithOptions ignores the options: they are about logs and resyncs.
func (s *staticInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(handler)
}

func (s *staticInformer) add(object any) {
	_ = s.GetIndexer().Add(object)
	for _, handler := range s.handlers {
		handler.OnAdd(object, false)
	}
}

func (s *staticInformer) update(from, to any) {
	_ = s.GetIndexer().Update(to)
	for _, handler := range s.handlers {
		handler.OnUpdate(from, to)
	}
}

func (s *staticInformer) remove(object any) {
	_ = s.GetIndexer().Delete(object)
	for _, handler := range s.handlers {
		handler.OnDelete(object)
	}
}
