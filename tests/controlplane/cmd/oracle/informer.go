package main

import (
	"reflect"
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
	&resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{}, &resourcev1.DeviceClass{},
}

// staticInformer is an informer with a fixed set of objects that calls its handlers at once, in the caller's goroutine. Real ones
// list, watch and notify later, which takes longer than the whole evaluation and makes the order of events random.
// The embedded informer is never started: only its index is used.
type staticInformer struct {
	cache.SharedIndexInformer
	objects  []any
	handlers []cache.ResourceEventHandler
}

// staticInformers puts a staticInformer for each watched kind into the factory, with the objects in the order given.
func staticInformers(factory informers.SharedInformerFactory, objects []runtime.Object) map[reflect.Type]*staticInformer {
	byType := make(map[reflect.Type]*staticInformer, len(watchedKinds))
	for _, example := range watchedKinds {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		unstarted := cache.NewSharedIndexInformer(&cache.ListWatch{}, example, 0, indexers)
		informer := &staticInformer{SharedIndexInformer: unstarted}
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
