package main

import (
	"context"
	"errors"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

// preemptionReport is PostFilter's result, and the candidates that it chooses from.
type preemptionReport struct {
	Status        string                     `json:"status"`
	Message       string                     `json:"message"`
	NominatedNode string                     `json:"nominatedNode"`
	Victims       []string                   `json:"victims"`
	Ties          []string                   `json:"ties"`
	Candidates    map[string]candidateReport `json:"candidates"`
}

type candidateReport struct {
	Victims       []string `json:"victims"`
	PDBViolations int64    `json:"pdbViolations"`
}

// explainUnfit runs kube-scheduler's whole scheduling of the pod again, for its own message and for PostFilter.
func (e *evaluation) explainUnfit(ctx context.Context) error {
	e.state = newState()
	result, fitError, err := e.schedulePod(ctx)
	if errors.Is(err, scheduler.ErrNoNodesAvailable) {
		e.report.FilterMessage, e.report.FitErrorMessage = err.Error(), err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	if fitError == nil { // only the nominated node fits, which PreFilter had excluded
		e.report.Choice = []string{result.SuggestedHost}
		return nil
	}
	e.report.FilterMessage = fitError.Error()
	if e.profile.HasPostFilterPlugins() {
		preemption, _, err := e.postFilter(ctx, fitError)
		if err != nil {
			return err
		}
		e.report.Preemption = preemption
	}
	e.report.FitErrorMessage = fitError.Error()
	return nil
}

// schedulePod runs kube-scheduler's own SchedulePod. If no node fits it returns a FitError, for other failures an error.
func (e *evaluation) schedulePod(ctx context.Context) (scheduler.ScheduleResult, *framework.FitError, error) {
	info, _ := framework.NewPodInfo(e.pod) // the plugin reports invalid affinity terms, as in kube-scheduler's queue
	result, err := e.SchedulePod(ctx, e.profile, e.state, &framework.QueuedPodInfo{PodInfo: info})
	var fitError *framework.FitError
	if errors.As(err, &fitError) {
		return result, fitError, nil
	}
	return result, nil, err
}

// postFilter runs the PostFilter plugins and adds their message to the FitError.
func (e *evaluation) postFilter(ctx context.Context, fitError *framework.FitError) (*preemptionReport, *fwk.NominatingInfo, error) {
	nodes := fitError.Diagnosis.NodeToStatus
	result, status := e.profile.RunPostFilterPlugins(ctx, e.state, e.pod, nodes)
	fitError.Diagnosis.PostFilterMsg = status.Message()
	report := &preemptionReport{Status: status.Code().String(), Message: status.Message(), Victims: []string{}, Ties: []string{}}
	var nominating *fwk.NominatingInfo
	if result != nil && result.NominatingInfo != nil {
		nominating = result.NominatingInfo
		report.NominatedNode = nominating.NominatedNodeName
	}
	candidates, err := e.candidates(ctx, nodes)
	if err != nil {
		return nil, nil, err
	}
	report.describe(candidates)
	if report.NominatedNode != "" {
		chosen, ok := report.Candidates[report.NominatedNode]
		if !ok {
			return nil, nil, fmt.Errorf("oracle: node %s was nominated but is no candidate", report.NominatedNode)
		}
		report.Victims = chosen.Victims
	}
	return report, nominating, nil
}

// candidates does DefaultPreemption's dry run on every node where preemption may help. PostFilter has no effect on it.
func (e *evaluation) candidates(ctx context.Context, nodes *framework.NodeToStatus) (candidates, error) {
	plugin := preemptionOf(e.profile)
	if plugin == nil {
		return nil, nil
	}
	if eligible, _ := plugin.PodEligibleToPreemptOthers(ctx, e.pod, nodes.Get(e.pod.Status.NominatedNodeName)); !eligible {
		return nil, nil
	}
	return e.dryRun(ctx, plugin, nodes)
}

func (e *evaluation) dryRun(ctx context.Context, plugin *defaultpreemption.DefaultPreemption, nodes *framework.NodeToStatus) (candidates, error) {
	helped, err := nodes.NodesForStatusCode(e.snapshot, fwk.Unschedulable)
	if err != nil || len(helped) == 0 {
		return nil, err
	}
	budgets, err := plugin.Evaluator.PdbLister.List(everything)
	if err != nil {
		return nil, err
	}
	// One more than all nodes can never be reached, so that the search does not stop early. Nodes that fail are no candidates.
	enough := int32(len(helped)) + 1
	found, _, _ := plugin.Evaluator.DryRunPreemption(ctx, e.state, e.pod, helped, budgets, 0, enough)
	return found, nil
}
