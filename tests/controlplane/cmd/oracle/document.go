package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sort"
	"sync"
	"time"

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

// sequenceFactor is how many times longer than other documents a sequence may take.
const sequenceFactor = 10

// errSkipped ends a document that takes longer than its deadline.
var errSkipped = errors.New("took longer than the deadline")

const noPod = "there is no such pod among the objects"

// failure is the result of a document, or of one of its pods, that cannot be evaluated.
type failure struct {
	ID    json.RawMessage `json:"id"`
	Pod   string          `json:"pod,omitempty"`
	Error string          `json:"error"`
	// Skipped documents are not evaluated: nothing follows for a comparison.
	Skipped bool `json:"skipped,omitempty"`
}

// process returns the output lines of a document; it never panics.
func process(line []byte, deadline time.Duration) (results []any) {
	var doc document
	defer func() {
		if panicked := recover(); panicked != nil {
			results = []any{failure{ID: doc.ID, Error: fmt.Sprintf("panic: %v", panicked)}}
		}
	}()
	if err := json.Unmarshal(line, &doc); err != nil {
		return []any{failure{ID: salvagedID(line), Error: fmt.Sprintf("invalid document: %v", err)}}
	}
	if doc.Sequence != nil {
		deadline *= sequenceFactor
	}
	results, err := doc.results(deadline)
	if err != nil {
		return []any{failure{ID: doc.ID, Error: err.Error(), Skipped: errors.Is(err, errSkipped)}}
	}
	return results
}

// salvagedID returns the id of a document with an invalid field; null if the line is not even JSON.
func salvagedID(line []byte) json.RawMessage {
	var named struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(line, &named)
	return named.ID
}

// results evaluates the document. DynamicResources gets the whole deadline as its timeout for a single node: in a document that has
// met the deadline, no search for devices was cut short.
func (doc *document) results(deadline time.Duration) ([]any, error) {
	objects, err := decodeObjects(doc.Objects)
	if err != nil {
		return nil, err
	}
	config, err := decodeConfig(doc.Config)
	if err != nil {
		return nil, err
	}
	tryAllCandidates(config)
	setFilterTimeout(config, deadline)
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), klog.Background()), deadline)
	defer cancel()
	results, err := doc.evaluatedAll(ctx, objects, config)
	if ctx.Err() != nil {
		return nil, errSkipped
	}
	return results, err
}

func (doc *document) evaluatedAll(ctx context.Context, objects []runtime.Object, config *profiles) ([]any, error) {
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
	var results []any
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		results = append(results, doc.evaluated(ctx, cluster, name))
	}
	return results, nil
}

// evaluated returns the result of one pod; a panic in a plugin fails that pod only.
func (doc *document) evaluated(ctx context.Context, cluster *cluster, name string) (result any) {
	defer func() {
		if panicked := recover(); panicked != nil {
			klog.Background().V(0).Info("panicked", "pod", name, "panic", panicked, "stack", string(debug.Stack()))
			result = failure{ID: doc.ID, Pod: name, Error: fmt.Sprintf("panic: %v", panicked)}
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

// lastPanic is the value of a panic in a worker goroutine of the framework, which recovers and continues with a wrong result.
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

// inOrder returns a sorted copy; nil becomes an empty slice.
func inOrder(texts []string) []string {
	sorted := append([]string{}, texts...)
	sort.Strings(sorted)
	return sorted
}
