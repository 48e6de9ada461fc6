// Clientgo uses an API server as Go programs do: typed and dynamic clients, informers, leader election.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const timeout = 60 * time.Second

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	namespace := os.Args[1]
	typed := *config
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(&typed)
	check(err)
	useInformer(ctx, client, namespace)
	useDynamicClient(ctx, config, namespace)
	lead(ctx, client, namespace)
}

func useInformer(ctx context.Context, client kubernetes.Interface, namespace string) {
	events := make(chan string, 10)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Secrets().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { events <- "added" },
		UpdateFunc: func(_, after any) { events <- "updated to " + string(after.(*corev1.Secret).Data["a"]) },
		DeleteFunc: func(any) { events <- "deleted" },
	})
	check(err)
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		check(fmt.Errorf("the informer has not synced"))
	}
	secrets := client.CoreV1().Secrets(namespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "go"}, Data: map[string][]byte{"a": []byte("b")}}
	_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	check(err)
	_, err = secrets.Patch(ctx, "go", types.StrategicMergePatchType, []byte(`{"stringData":{"a":"c"}}`), metav1.PatchOptions{})
	check(err)
	fmt.Println("informer", next(ctx, events))
	fmt.Println("informer", next(ctx, events))
	check(secrets.Delete(ctx, "go", metav1.DeleteOptions{}))
	fmt.Println("informer", next(ctx, events))
}

func useDynamicClient(ctx context.Context, config *rest.Config, namespace string) {
	client, err := dynamic.NewForConfig(config)
	check(err)
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	events := make(chan string, 10)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	informer := factory.ForResource(resource).Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(added any) {
		if name := added.(*unstructured.Unstructured).GetName(); name == "go" {
			events <- name
		}
	}})
	check(err)
	factory.Start(ctx.Done())
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "go"}, "data": map[string]any{"a": "b"},
	}}
	_, err = client.Resource(resource).Namespace(namespace).Apply(ctx, "go", applied, metav1.ApplyOptions{FieldManager: "go"})
	check(err)
	fmt.Println("dynamic informer", next(ctx, events))
}

func lead(ctx context.Context, client kubernetes.Interface, namespace string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: "go", Namespace: namespace},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "one"},
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println("leads"); cancel() },
			OnStoppedLeading: func() { fmt.Println("released") },
		},
	})
}

func next(ctx context.Context, events chan string) string {
	select {
	case event := <-events:
		return event
	case <-ctx.Done():
		return "nothing"
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
