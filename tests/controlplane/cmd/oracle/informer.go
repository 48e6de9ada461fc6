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

// kindsRead are the kinds that kube-scheduler watches.
var kindsRead = []runtime.Object{
	&v1.Pod{}, &v1.Node{}, &v1.Namespace{}, &v1.Service{}, &v1.ReplicationController{},
	&v1.PersistentVolume{}, &v1.PersistentVolumeClaim{},
	&appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &policyv1.PodDisruptionBudget{},
	&storagev1.StorageClass{}, &storagev1.CSINode{}, &storagev1.CSIDriver{}, &storagev1.CSIStorageCapacity{}, &storagev1.VolumeAttachment{},
	&resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{}, &resourcev1.DeviceClass{},
}

// stillInformer is an informer that is filled by hand and tells its handlers at once, in the caller's goroutine. Real ones
// list, watch and tell later, which takes longer than the whole evaluation and leaves the order of events to chance.
// The informer inside is never started: only its index is used.
type stillInformer struct {
	cache.SharedIndexInformer
	held     []any
	handlers []cache.ResourceEventHandler
}

// still puts a stillInformer for each kind read into the factory, with the objects in the order given.
func still(factory informers.SharedInformerFactory, objects []runtime.Object) map[reflect.Type]*stillInformer {
	stills := make(map[reflect.Type]*stillInformer, len(kindsRead))
	for _, example := range kindsRead {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		unstarted := cache.NewSharedIndexInformer(&cache.ListWatch{}, example, 0, indexers)
		informer := &stillInformer{SharedIndexInformer: unstarted}
		stills[reflect.TypeOf(example)] = informer
		factory.InformerFor(example, func(clientset.Interface, time.Duration) cache.SharedIndexInformer { return informer })
	}
	for _, object := range objects {
		if pod, ok := object.(*v1.Pod); ok && terminated(pod) {
			continue
		}
		if informer, ok := stills[reflect.TypeOf(object)]; ok {
			informer.held = append(informer.held, object)
			_ = informer.GetIndexer().Add(object) // fails for objects without metadata only
		}
	}
	return stills
}

// AddEventHandler tells the handler of all there is.
func (s *stillInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.handlers = append(s.handlers, handler)
	for _, object := range s.held {
		handler.OnAdd(object, true)
	}
	return s.SharedIndexInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{})
}

// AddEventHandlerWithResyncPeriod never syncs again: nothing is missed here.
func (s *stillInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(handler)
}

// AddEventHandlerWithOptions takes no notice of the options: they are about logs and syncing again.
func (s *stillInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandler(handler)
}

func (s *stillInformer) update(from, to any) {
	_ = s.GetIndexer().Update(to)
	for _, handler := range s.handlers {
		handler.OnUpdate(from, to)
	}
}

func (s *stillInformer) remove(object any) {
	_ = s.GetIndexer().Delete(object)
	for _, handler := range s.handlers {
		handler.OnDelete(object)
	}
}
