package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sort"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

// document is one line of input.
type document struct {
	ID       json.RawMessage   `json:"id"`
	Objects  []json.RawMessage `json:"objects"`
	Pods     *[]string         `json:"pods"`
	Sequence *[]string         `json:"sequence"`
	Config   json.RawMessage   `json:"config"`
}

const noPod = "there is no such pod among the objects"

// failure answers a document, or one of its pods, that cannot be evaluated.
type failure struct {
	ID    json.RawMessage `json:"id"`
	Pod   string          `json:"pod,omitempty"`
	Error string          `json:"error"`
}

// answer gives the lines that answer a document; it never panics.
func answer(line []byte) (answers []any) {
	var doc document
	defer func() {
		if panicked := recover(); panicked != nil {
			answers = []any{failure{ID: doc.ID, Error: fmt.Sprintf("panic: %v", panicked)}}
		}
	}()
	if err := json.Unmarshal(line, &doc); err != nil {
		return []any{failure{ID: salvagedID(line), Error: fmt.Sprintf("the line is no document: %v", err)}}
	}
	answers, err := doc.answers()
	if err != nil {
		return []any{failure{ID: doc.ID, Error: err.Error()}}
	}
	return answers
}

// salvagedID is the id of a document of which some other field is wrong; null if the line is not even JSON.
func salvagedID(line []byte) json.RawMessage {
	var named struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(line, &named)
	return named.ID
}

func (doc *document) answers() ([]any, error) {
	objects, err := decodeObjects(doc.Objects)
	if err != nil {
		return nil, err
	}
	config, err := decodeConfig(doc.Config)
	if err != nil {
		return nil, err
	}
	tryAllCandidates(config)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Background()))
	defer cancel()
	if doc.Sequence != nil {
		return doc.sequence(ctx, objects, config)
	}
	filterAllNodes(config)
	cluster, err := newCluster(ctx, objects, config)
	if err != nil {
		return nil, err
	}
	names := cluster.unassigned()
	if doc.Pods != nil {
		names = *doc.Pods
	}
	var answers []any
	for _, name := range names {
		answers = append(answers, doc.evaluated(ctx, cluster, name))
	}
	return answers, nil
}

// evaluated is the answer for one pod; a panic in a plugin costs that pod only.
func (doc *document) evaluated(ctx context.Context, cluster *cluster, name string) (answer any) {
	defer func() {
		if panicked := recover(); panicked != nil {
			klog.Background().V(0).Info("panicked", "pod", name, "panic", panicked, "stack", string(debug.Stack()))
			answer = failure{ID: doc.ID, Pod: name, Error: fmt.Sprintf("panic: %v", panicked)}
		}
	}()
	pod, ok := cluster.pod(name)
	if !ok {
		return failure{ID: doc.ID, Pod: name, Error: noPod}
	}
	takePanic()
	report := cluster.evaluate(ctx, pod)
	if panicked := takePanic(); panicked != nil {
		panic(panicked)
	}
	report.ID, report.Pod = doc.ID, name
	return report
}

func (doc *document) sequence(ctx context.Context, objects []runtime.Object, config *profiles) ([]any, error) {
	cluster, err := newCluster(ctx, objects, config)
	if err != nil {
		return nil, err
	}
	takePanic()
	attempts, err := cluster.scheduleInOrder(ctx, *doc.Sequence)
	if panicked := takePanic(); panicked != nil {
		panic(panicked)
	}
	if err != nil {
		return nil, err
	}
	return []any{scheduled{ID: doc.ID, Attempts: attempts}}, nil
}

// lastPanic is what a worker goroutine of the framework panicked with. The framework swallows it then, and the answer is wrong.
var lastPanic struct {
	sync.Mutex
	value any
}

func rememberPanic(_ context.Context, panicked any) {
	lastPanic.Lock()
	defer lastPanic.Unlock()
	lastPanic.value = panicked
}

func takePanic() any {
	lastPanic.Lock()
	defer lastPanic.Unlock()
	taken := lastPanic.value
	lastPanic.value = nil
	return taken
}

func nameOf(pod *v1.Pod) string {
	return pod.Namespace + "/" + pod.Name
}

// inOrder sorts a copy, and makes nothing an empty list.
func inOrder(texts []string) []string {
	sorted := append([]string{}, texts...)
	sort.Strings(sorted)
	return sorted
}
