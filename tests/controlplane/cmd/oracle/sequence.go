package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// scheduled is the result of a sequence.
type scheduled struct {
	ID       json.RawMessage `json:"id"`
	Attempts []attempt       `json:"attempts"`
}

// attempt is one attempt to schedule a pod: its node, or the reason for failure with the victims of preemption.
// Ties are the nodes that preemption might have nominated equally. Devices are those of each claim that was written, by its name.
type attempt struct {
	Pod           string   `json:"pod"`
	Node          string   `json:"node"`
	Message       string   `json:"message"`
	NominatedNode string   `json:"nominatedNode"`
	Victims       []string `json:"victims"`
	Ties          []string `json:"ties"`

	Devices map[string][]string `json:"devices"`
}

// firstStart is after the start of any running pod of a case, and before now: for kube-scheduler a pod without a start time
// starts at the time of the comparison, which is later than any other.
var firstStart = time.Date(2026, time.April, 1, 0, 0, 0, 0, time.UTC)

// scheduleInOrder schedules pods one after the other, each on the result of those before it. A pod that preempts
// is attempted once more without its victims.
func (c *cluster) scheduleInOrder(ctx context.Context, names []string) ([]attempt, error) {
	attempts := []attempt{}
	for _, name := range names {
		for try := 0; try < 2 && ctx.Err() == nil; try++ {
			pod, ok := c.pod(name)
			if !ok {
				none := attempt{Pod: name, Message: noPod, Victims: []string{}, Ties: []string{}, Devices: map[string][]string{}}
				attempts = append(attempts, none)
				break
			}
			outcome, err := c.attempt(ctx, pod)
			if err != nil {
				return nil, fmt.Errorf("sequence: pod %s: %w", name, err)
			}
			attempts = append(attempts, *outcome)
			if len(outcome.Victims) == 0 {
				break
			}
		}
	}
	return attempts, nil
}

// attempt is one scheduling cycle up to Permit, as in schedulingCycle of pkg/scheduler/schedule_one.go, with its consequences:
// the pod is assumed, or it is nominated and its victims are deleted.
func (c *cluster) attempt(ctx context.Context, pod *v1.Pod) (*attempt, error) {
	outcome := &attempt{Pod: nameOf(pod), Victims: []string{}, Ties: []string{}, Devices: map[string][]string{}}
	profile, err := c.profileOf(pod)
	if err != nil {
		return nil, err
	}
	if refusal := c.unqueued(ctx, profile, pod); refusal != "" {
		outcome.Message = refusal
		return outcome, nil
	}
	snapshot, err := c.refreshed(ctx, profile)
	if err != nil {
		return nil, err
	}
	e := evaluation{cluster: c, profile: profile, snapshot: snapshot, pod: pod, state: newState()}
	result, fitError, err := e.schedulePod(ctx)
	if err != nil {
		outcome.Message = err.Error()
		return outcome, nil
	}
	if fitError != nil {
		return outcome, e.fail(ctx, fitError, outcome)
	}
	e.place(ctx, result.SuggestedHost, outcome)
	return outcome, e.catchUp(outcome)
}

// unqueued returns the reason for which kube-scheduler would not even attempt the pod; "" if it would.
func (c *cluster) unqueued(ctx context.Context, profile framework.Framework, pod *v1.Pod) string {
	if assumed, err := c.Cache.IsAssumedPod(pod); pod.Spec.NodeName != "" || (err == nil && assumed) {
		return "the pod has a node already"
	}
	if pod.DeletionTimestamp != nil {
		return "skip schedule deleting pod: " + nameOf(pod)
	}
	return gate(ctx, profile, pod).Message()
}

// place assumes the pod on its node and reserves what it needs there, as assumeAndReserve in pkg/scheduler/schedule_one.go does.
func (e *evaluation) place(ctx context.Context, node string, outcome *attempt) {
	logger := klog.FromContext(ctx)
	assumed := e.pod.DeepCopy()
	assumed.Spec.NodeName = node
	assumed.Status.StartTime = e.nextStart()
	if err := e.Cache.AssumePod(logger, assumed); err != nil {
		outcome.Message = err.Error()
		return
	}
	e.SchedulingQueue.DeleteNominatedPodIfExists(assumed)
	status := e.profile.RunReservePluginsReserve(ctx, e.state, assumed, node)
	if status.IsSuccess() {
		_, status = e.profile.RunPermitPlugins(ctx, e.state, assumed, node)
	}
	if status.IsSuccess() || status.IsWait() {
		status = e.preBindDevices(ctx, assumed, node)
	}
	if status.IsSuccess() {
		outcome.Node = node
		return
	}
	e.profile.RunReservePluginsUnreserve(ctx, e.state, assumed, node)
	outcome.Message = status.Message()
	if err := e.Cache.ForgetPod(logger, assumed); err != nil {
		outcome.Message += "; " + err.Error()
	}
}

// nextStart returns the start time of the next placed pod: a second after the one before, and after all running ones.
// Without a start time, comparisons of victims would use the current time, and their results would be random.
func (c *cluster) nextStart() *metav1.Time {
	c.placed++
	return &metav1.Time{Time: firstStart.Add(time.Duration(c.placed) * time.Second)}
}

// fail runs PostFilter and applies at once what otherwise takes a kubelet's grace period and some watch events.
func (e *evaluation) fail(ctx context.Context, fitError *framework.FitError, outcome *attempt) error {
	if e.profile.HasPostFilterPlugins() {
		preemption, nominating, err := e.postFilter(ctx, fitError)
		if err != nil {
			return err
		}
		outcome.NominatedNode, outcome.Victims, outcome.Ties = preemption.NominatedNode, preemption.Victims, preemption.Ties
		if outcome.NominatedNode == "" {
			outcome.Ties = []string{}
		}
		e.nominate(ctx, nominating)
		e.evict(ctx, preemption.Victims)
	}
	outcome.Message = fitError.Error()
	return e.catchUp(outcome)
}

// nominate records the nomination as handleSchedulingFailure in pkg/scheduler/schedule_one.go does: in the queue and in the pod.
func (e *evaluation) nominate(ctx context.Context, nominating *fwk.NominatingInfo) {
	if nominating.Mode() != fwk.ModeOverride || nominating.NominatedNodeName == e.pod.Status.NominatedNodeName {
		return
	}
	e.renominate(e.pod, nominating.NominatedNodeName)
	if info, err := framework.NewPodInfo(e.pod); err == nil {
		e.SchedulingQueue.AddNominatedPod(klog.FromContext(ctx), info, nominating)
	}
}

// evict removes the pods, assumed or running.
func (e *evaluation) evict(ctx context.Context, names []string) {
	for _, name := range names {
		pod, ok := e.cluster.pod(name)
		if !ok {
			continue
		}
		e.podInformer().remove(pod)
	}
}

// catchUp applies the writes of PreBind and PostFilter: claims with and without an allocation, pods without their nomination.
func (e *evaluation) catchUp(outcome *attempt) error {
	outcome.Devices = e.writes.devices()
	for _, name := range e.writes.patched {
		if pod, ok := e.cluster.pod(name.String()); ok {
			e.renominate(pod, "")
		}
	}
	for _, written := range e.writes.updated {
		if err := e.changed(written); err != nil {
			return err
		}
	}
	*e.writes = recordedWrites{}
	return nil
}

func (c *cluster) renominate(pod *v1.Pod, node string) {
	renominated := pod.DeepCopy()
	renominated.Status.NominatedNodeName = node
	_ = c.changed(renominated)
}
