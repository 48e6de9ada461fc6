// Command allocator allocates devices with kube-scheduler's own allocator, for comparison with other allocators.
//
// Each line of standard input is a document: a node, ResourceSlices, DeviceTaintRules, DeviceClasses,
// ResourceClaims and the devices in use.
// Each line of standard output is the result: the allocations, or the error. It is a module of its own, because the
// allocator is a library with its own version.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
)

// patience is the time for one document; the search is exponential in the worst case.
const patience = 2 * time.Second

// features are those that kube-scheduler 1.37 has on by default; they select its "incubating" allocator.
var features = structured.Features{
	AdminAccess:             true,
	ConsumableCapacity:      true,
	DeviceBindingAndStatus:  true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

// celCache keeps compiled expressions over all documents.
var celCache = cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true})

type document struct {
	Node      *v1.Node                       `json:"node"`
	Slices    []*resourceapi.ResourceSlice   `json:"slices"`
	Rules     []*resourceapi.DeviceTaintRule `json:"rules"`
	Classes   []*resourceapi.DeviceClass     `json:"classes"`
	Claims    []*resourceapi.ResourceClaim   `json:"claims"`
	Allocated allocated                      `json:"allocated"`
}

// allocated is the devices in use, as [driver, pool, device] and [driver, pool, device, shareID].
type allocated struct {
	Devices  [][3]string        `json:"devices"`
	Shared   [][4]string        `json:"shared"`
	Capacity []consumedCapacity `json:"capacity"`
}

type consumedCapacity struct {
	Device   [3]string                                       `json:"device"`
	Consumed map[resourceapi.QualifiedName]resource.Quantity `json:"consumed"`
}

type result struct {
	Allocations []resourceapi.AllocationResult `json:"allocations,omitempty"`
	Error       string                         `json:"error,omitempty"`
	OnNode      bool                           `json:"onNode,omitempty"`   // the error concerns this node only
	TimedOut    bool                           `json:"timedOut,omitempty"` // not an outcome, the document took too long
	Steps       int64                          `json:"steps"`
}

func main() {
	klog.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // documents are many and short-lived
	if err := processAll(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func processAll(input io.Reader, output io.Writer) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, 1<<30)
	writer := bufio.NewWriter(output)
	encoder := json.NewEncoder(writer)
	for lines.Scan() {
		if err := encoder.Encode(process(lines.Bytes())); err != nil {
			return err
		}
		if err := writer.Flush(); err != nil {
			return err
		}
	}
	return lines.Err()
}

// process never fails: a panic of the allocator is an outcome too, which no document should have.
func process(line []byte) (done result) {
	defer func() {
		if problem := recover(); problem != nil {
			done = result{Error: fmt.Sprintf("panic: %v", problem)}
		}
	}()
	var doc document
	if err := json.Unmarshal(line, &doc); err != nil {
		return result{Error: fmt.Sprintf("invalid document: %v", err)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	slices, err := withRules(ctx, doc.Slices, doc.Rules)
	if err != nil {
		return result{Error: err.Error()}
	}
	allocator, err := structured.NewAllocator(ctx, features, state(doc.Allocated), classes(doc.Classes), slices, celCache)
	if err != nil {
		return result{Error: err.Error()}
	}
	allocations, err := allocator.Allocate(ctx, doc.Node, doc.Claims)
	done = result{Allocations: allocations, TimedOut: errors.Is(err, context.DeadlineExceeded)}
	// The type of the statistics is internal to the module, their method is not.
	if stats := reflect.ValueOf(allocator).MethodByName("GetStats"); stats.IsValid() {
		done.Steps = stats.Call(nil)[0].FieldByName("NumAllocateOneInvocations").Int()
	}
	if err != nil {
		done.Error = err.Error()
		done.OnNode = errors.Is(err, structured.ErrFailedAllocationOnNode)
	}
	return done
}

func state(in allocated) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, id := range in.Devices {
		state.AllocatedDevices.Insert(structured.MakeDeviceID(id[0], id[1], id[2]))
	}
	for _, id := range in.Shared {
		share := types.UID(id[3])
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(structured.MakeDeviceID(id[0], id[1], id[2]), &share))
	}
	for _, each := range in.Capacity {
		id := structured.MakeDeviceID(each.Device[0], each.Device[1], each.Device[2])
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, each.Consumed))
	}
	return state
}

// classLister has the two methods that the allocator wants; the errors are those of the real lister.
type classLister struct {
	resourcelisters.DeviceClassLister
}

func (c classLister) List() ([]*resourceapi.DeviceClass, error) { return nil, errors.New("not listed") }

func classes(objects []*resourceapi.DeviceClass) classLister {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, class := range objects {
		_ = indexer.Add(class)
	}
	return classLister{resourcelisters.NewDeviceClassLister(indexer)}
}
