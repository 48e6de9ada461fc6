package main

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// report is the framework's result for one pod.
type report struct {
	ID              json.RawMessage             `json:"id"`
	Pod             string                      `json:"pod"`
	PreEnqueue      *verdict                    `json:"preenqueue,omitempty"`
	Error           string                      `json:"error,omitempty"`
	PreFilter       *preFilterVerdict           `json:"prefilter,omitempty"`
	Nodes           map[string]nodeVerdict      `json:"nodes,omitzero"`
	Scores          map[string]map[string]int64 `json:"scores,omitzero"`
	Weights         map[string]int32            `json:"weights,omitzero"`
	Total           map[string]int64            `json:"total,omitzero"`
	Choice          []string                    `json:"choice,omitzero"`
	FilterMessage   string                      `json:"filter_message,omitempty"`
	FitErrorMessage string                      `json:"fit_error_message,omitempty"`
	Preemption      *preemptionReport           `json:"preemption,omitempty"`
	Bindings        map[string]*deviceBinding   `json:"bindings,omitzero"`
}

type verdict struct {
	Status  string   `json:"status"`
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
}

type preFilterVerdict struct {
	verdict
	NodeNames []string `json:"nodeNames"`
}

type nodeVerdict struct {
	Feasible bool     `json:"feasible"`
	Plugin   string   `json:"plugin"`
	Code     string   `json:"code"`
	Reasons  []string `json:"reasons"`
}

// verdictOf converts a status, which is nil for success.
func verdictOf(status *fwk.Status) verdict {
	result := verdict{Status: status.Code().String(), Reasons: []string{}}
	if status != nil {
		result.Plugin, result.Reasons = status.Plugin(), inOrder(status.Reasons())
	}
	return result
}

func nodeVerdictOf(status *fwk.Status) nodeVerdict {
	result := verdictOf(status)
	return nodeVerdict{status.IsSuccess(), result.Plugin, result.Status, result.Reasons}
}

// evaluation is the state of one pod's evaluation.
type evaluation struct {
	*cluster
	profile  framework.Framework
	snapshot *internalcache.Snapshot
	pod      *v1.Pod
	state    fwk.CycleState
	report   *report
}

// evaluate runs every extension point that decides on a pod, for every node. It does not change the cluster.
func (c *cluster) evaluate(ctx context.Context, pod *v1.Pod) *report {
	result := &report{}
	if err := c.evaluateInto(ctx, pod, result); err != nil {
		result.Error = err.Error()
	}
	return result
}

func (c *cluster) evaluateInto(ctx context.Context, pod *v1.Pod, result *report) error {
	profile, err := c.profileOf(pod)
	if err != nil {
		return err
	}
	if status := gate(ctx, profile, pod); !status.IsSuccess() {
		gated := verdictOf(status)
		result.PreEnqueue = &gated
		return nil
	}
	snapshot, err := c.refreshed(ctx, profile)
	if err != nil {
		return err
	}
	e := evaluation{cluster: c, profile: profile, snapshot: snapshot, pod: pod, state: newState(), report: result}
	if snapshot.NumNodesInPlacement() == 0 {
		return e.explainUnfit(ctx)
	}
	nodes, rejected, err := e.preFilter(ctx)
	if err != nil {
		return err
	}
	feasible, err := e.filter(ctx, nodes, rejected)
	if err != nil {
		return err
	}
	if len(feasible) == 0 {
		return e.explainUnfit(ctx)
	}
	if err := e.score(ctx, feasible); err != nil {
		return err
	}
	return e.bindDevices(ctx, feasible)
}

func newState() fwk.CycleState {
	state := framework.NewCycleState()
	state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	return state
}

// gate returns the rejection of the first PreEnqueue plugin that rejects the pod; nil if the pod may enter the queue.
func gate(ctx context.Context, profile framework.Framework, pod *v1.Pod) *fwk.Status {
	for _, plugin := range profile.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, pod); !status.IsSuccess() {
			return status.WithPlugin(plugin.Name())
		}
	}
	return nil
}

// preFilter returns the nodes for Filter (nil for all of them), and the status of the others.
func (e *evaluation) preFilter(ctx context.Context) (nodes sets.Set[string], rejected *fwk.Status, err error) {
	result, status, plugins := e.profile.RunPreFilterPlugins(ctx, e.state, e.pod)
	prefilter := &preFilterVerdict{verdict: verdictOf(status)}
	e.report.PreFilter = prefilter
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, nil, status.AsError()
		}
		return sets.New[string](), status, nil
	}
	if result.AllNodes() {
		return nil, nil, nil
	}
	prefilter.NodeNames = sets.List(result.NodeNames)
	// As in findNodesThatFitPod in pkg/scheduler/schedule_one.go; the set of plugins is that of the diagnosis.
	if status := e.nominatedStatus(ctx); status.IsRejected() && status.Plugin() != "" {
		plugins.Insert(status.Plugin())
	}
	message := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(plugins))
	return result.NodeNames, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, message), nil
}

// nominatedStatus returns the rejection of the pod's nominated node, nil if there is none. kube-scheduler evaluates that node
// first, whatever PreFilter returns, and only logs an error.
func (e *evaluation) nominatedStatus(ctx context.Context) *fwk.Status {
	nominated, err := e.snapshot.GetNodeInPlacement(e.pod.Status.NominatedNodeName)
	if err != nil {
		return nil
	}
	return e.profile.RunFilterPluginsWithNominatedPods(ctx, e.state, e.pod, nominated)
}

// filter runs Filter on every node, and returns the feasible ones in the snapshot's order.
func (e *evaluation) filter(ctx context.Context, names sets.Set[string], rejected *fwk.Status) ([]fwk.NodeInfo, error) {
	all, err := e.snapshot.ListNodesInPlacement()
	if err != nil {
		return nil, err
	}
	var feasible []fwk.NodeInfo
	verdicts := make(map[string]nodeVerdict, len(all))
	for _, node := range all {
		name, status := node.Node().Name, rejected
		if names == nil || names.Has(name) {
			status = e.profile.RunFilterPluginsWithNominatedPods(ctx, e.state, e.pod, node)
		} else if len(names) > 0 && name == e.pod.Status.NominatedNodeName { // PreFilter has not rejected the pod
			if own := e.nominatedStatus(ctx); own.IsRejected() {
				status = own // it is final, since the search that follows skips the node
			}
		}
		if status.Code() == fwk.Error {
			return nil, status.AsError()
		}
		if status.IsSuccess() {
			feasible = append(feasible, node)
		}
		verdicts[name] = nodeVerdictOf(status)
	}
	e.report.Nodes = verdicts
	return feasible, nil
}

// score computes the scores of each feasible node, also of a single one, which kube-scheduler would not score.
func (e *evaluation) score(ctx context.Context, feasible []fwk.NodeInfo) error {
	if status := e.profile.RunPreScorePlugins(ctx, e.state, e.pod, feasible); !status.IsSuccess() {
		return status.AsError()
	}
	scored, status := e.profile.RunScorePlugins(ctx, e.state, e.pod, feasible)
	if !status.IsSuccess() {
		return status.AsError()
	}
	e.report.Scores = make(map[string]map[string]int64)
	e.report.Weights = make(map[string]int32)
	e.report.Total = make(map[string]int64, len(scored))
	for _, plugin := range e.profile.ListPlugins().Score.Enabled {
		e.report.Weights[plugin.Name] = plugin.Weight
	}
	for _, node := range scored {
		e.report.Total[node.Name] = node.TotalScore
		if !e.profile.HasScorePlugins() {
			e.report.Total[node.Name] = 1 // as in prioritizeNodes in pkg/scheduler/schedule_one.go
		}
		for _, plugin := range node.Scores {
			if e.report.Scores[plugin.Name] == nil {
				e.report.Scores[plugin.Name] = make(map[string]int64, len(scored))
			}
			e.report.Scores[plugin.Name][node.Name] = plugin.Score
		}
	}
	e.report.Choice = e.choice(ctx)
	return nil
}

// choice returns the nodes with the best total; the nominated node alone if it fits, since kube-scheduler evaluates it first
// and ignores the nodes that PreFilter returns.
func (e *evaluation) choice(ctx context.Context) []string {
	if nominated, err := e.snapshot.GetNodeInPlacement(e.pod.Status.NominatedNodeName); err == nil {
		if e.profile.RunFilterPluginsWithNominatedPods(ctx, e.state, e.pod, nominated).IsSuccess() {
			return []string{nominated.Node().Name}
		}
	}
	var best []string
	for name, total := range e.report.Total {
		if len(best) > 0 && total > e.report.Total[best[0]] {
			best = best[:0]
		}
		if len(best) == 0 || total == e.report.Total[best[0]] {
			best = append(best, name)
		}
	}
	return inOrder(best)
}
