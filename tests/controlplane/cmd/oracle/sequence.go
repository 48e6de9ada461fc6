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

// scheduled answers a sequence.
type scheduled struct {
	ID       json.RawMessage `json:"id"`
	Attempts []attempt       `json:"attempts"`
}

// attempt is one try to schedule a pod: the node it was given, or why there was none, and who has to go for it.
// Ties are the nodes that preemption might as well have nominated.
type attempt struct {
	Pod           string   `json:"pod"`
	Node          string   `json:"node"`
	Message       string   `json:"message"`
	NominatedNode string   `json:"nominatedNode"`
	Victims       []string `json:"victims"`
	Ties          []string `json:"ties"`
}

// firstStart is after the start of any pod that a case has running, and before now: for kube-scheduler a pod without a start
// starts at the moment of asking, which is later than any other.
var firstStart = time.Date(2026, time.April, 1, 0, 0, 0, 0, time.UTC)

// scheduleInOrder schedules pods one after the other, each on what those before it have left. A pod that preempts
// is tried once more without its victims.
func (c *cluster) scheduleInOrder(ctx context.Context, names []string) ([]attempt, error) {
	attempts := []attempt{}
	for _, name := range names {
		for try := 0; try < 2; try++ {
			pod, ok := c.pod(name)
			if !ok {
				attempts = append(attempts, attempt{Pod: name, Message: noPod, Victims: []string{}, Ties: []string{}})
				break
			}
			made, err := c.attempt(ctx, pod)
			if err != nil {
				return nil, fmt.Errorf("sequence: pod %s: %w", name, err)
			}
			attempts = append(attempts, *made)
			if len(made.Victims) == 0 {
				break
			}
		}
	}
	return attempts, nil
}

// attempt is one scheduling cycle up to Permit, as in schedulingCycle of pkg/scheduler/schedule_one.go, and what follows from
// it: the pod is assumed, or its nomination is noted and its victims are gone.
func (c *cluster) attempt(ctx context.Context, pod *v1.Pod) (*attempt, error) {
	made := &attempt{Pod: nameOf(pod), Victims: []string{}, Ties: []string{}}
	profile, err := c.profileOf(pod)
	if err != nil {
		return nil, err
	}
	if refusal := c.unqueued(ctx, profile, pod); refusal != "" {
		made.Message = refusal
		return made, nil
	}
	snapshot, err := c.refreshed(ctx, profile)
	if err != nil {
		return nil, err
	}
	e := evaluation{cluster: c, profile: profile, snapshot: snapshot, pod: pod, state: newState()}
	result, fitError, err := e.schedulePod(ctx)
	if err != nil {
		made.Message = err.Error()
		return made, nil
	}
	if fitError != nil {
		return made, e.fail(ctx, fitError, made)
	}
	e.place(ctx, result.SuggestedHost, made)
	return made, nil
}

// unqueued says why kube-scheduler would not even try the pod; nothing if it would.
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
func (e *evaluation) place(ctx context.Context, node string, made *attempt) {
	logger := klog.FromContext(ctx)
	assumed := e.pod.DeepCopy()
	assumed.Spec.NodeName = node
	assumed.Status.StartTime = e.nextStart()
	if err := e.Cache.AssumePod(logger, assumed); err != nil {
		made.Message = err.Error()
		return
	}
	e.SchedulingQueue.DeleteNominatedPodIfExists(assumed)
	status := e.profile.RunReservePluginsReserve(ctx, e.state, assumed, node)
	if status.IsSuccess() {
		_, status = e.profile.RunPermitPlugins(ctx, e.state, assumed, node)
	}
	if status.IsSuccess() || status.IsWait() {
		made.Node = node
		return
	}
	e.profile.RunReservePluginsUnreserve(ctx, e.state, assumed, node)
	made.Message = status.Message()
	if err := e.Cache.ForgetPod(logger, assumed); err != nil {
		made.Message += "; " + err.Error()
	}
}

// nextStart is when the next pod to be placed starts: a second after the one before, and after all that run already.
// Without a start, each comparison of two victims would take the time at which it is made, and the outcome be up to chance.
func (c *cluster) nextStart() *metav1.Time {
	c.placed++
	return &metav1.Time{Time: firstStart.Add(time.Duration(c.placed) * time.Second)}
}

// fail runs PostFilter and does at once what else takes a kubelet's grace and some watch events.
func (e *evaluation) fail(ctx context.Context, fitError *framework.FitError, made *attempt) error {
	if e.profile.HasPostFilterPlugins() {
		said, nominating, err := e.postFilter(ctx, fitError)
		if err != nil {
			return err
		}
		made.NominatedNode, made.Victims, made.Ties = said.NominatedNode, said.Victims, said.Ties
		if made.NominatedNode == "" {
			made.Ties = []string{}
		}
		e.nominate(ctx, nominating)
		e.evict(ctx, said.Victims)
	}
	made.Message = fitError.Error()
	return e.catchUp()
}

// nominate notes the nomination as handleSchedulingFailure in pkg/scheduler/schedule_one.go does: in the queue and in the pod.
func (e *evaluation) nominate(ctx context.Context, nominating *fwk.NominatingInfo) {
	if nominating.Mode() != fwk.ModeOverride || nominating.NominatedNodeName == e.pod.Status.NominatedNodeName {
		return
	}
	e.renominate(e.pod, nominating.NominatedNodeName)
	if info, err := framework.NewPodInfo(e.pod); err == nil {
		e.SchedulingQueue.AddNominatedPod(klog.FromContext(ctx), info, nominating)
	}
}

// evict takes the pods away, whether assumed or known to run.
func (e *evaluation) evict(ctx context.Context, names []string) {
	for _, name := range names {
		pod, ok := e.cluster.pod(name)
		if !ok {
			continue
		}
		e.podInformer().remove(pod)
	}
}

// catchUp makes known what PostFilter has written: claims without their allocation, pods without their nomination.
func (e *evaluation) catchUp() error {
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
	*e.writes = writes{}
	return nil
}

func (c *cluster) renominate(pod *v1.Pod, node string) {
	renominated := pod.DeepCopy()
	renominated.Status.NominatedNodeName = node
	_ = c.changed(renominated)
}
