package main

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

var everything = labels.Everything()

// candidates are nodes that pods can be evicted from so that another fits.
type candidates []preemption.Candidate

// criteria are those of pickOneNodeForPreemption in pkg/scheduler/framework/preemption, in its order: more is better, and each
// decides only among the nodes that are equal by those before it. Any of the nodes left by the last may be picked.
var criteria = []func(*extenderv1.Victims) int64{
	func(victims *extenderv1.Victims) int64 { return -victims.NumPDBViolations },
	func(victims *extenderv1.Victims) int64 { return -int64(corev1helpers.PodPriority(victims.Pods[0])) },
	func(victims *extenderv1.Victims) int64 { return -sumOfPriorities(victims.Pods) },
	func(victims *extenderv1.Victims) int64 { return -int64(len(victims.Pods)) },
	latestStart,
}

// sumOfPriorities counts from the lowest possible priority, so that few victims of negative priority beat many.
func sumOfPriorities(pods []*v1.Pod) (sum int64) {
	for _, pod := range pods {
		sum += int64(corev1helpers.PodPriority(pod)) + math.MaxInt32 + 1
	}
	return sum
}

func latestStart(victims *extenderv1.Victims) int64 {
	start := util.GetEarliestPodStartTime(victims)
	if start == nil {
		return math.MinInt64
	}
	return start.UnixNano()
}

// ties returns the names of the nodes that are equal by all criteria: one of them is picked arbitrarily.
func (all candidates) ties() []string {
	remaining := all
	for _, points := range criteria {
		var best candidates
		most := int64(math.MinInt64)
		for _, candidate := range remaining {
			p := points(candidate.Victims())
			if p > most {
				most, best = p, nil
			}
			if p == most {
				best = append(best, candidate)
			}
		}
		remaining = best
	}
	var names []string
	for _, candidate := range remaining {
		names = append(names, candidate.Name())
	}
	return inOrder(names)
}

// describe adds the candidates to the report.
func (report *preemptionReport) describe(all candidates) {
	report.Ties = all.ties()
	report.Candidates = make(map[string]candidateReport, len(all))
	for _, candidate := range all {
		victims := []string{}
		for _, pod := range candidate.Victims().Pods {
			victims = append(victims, nameOf(pod))
		}
		report.Candidates[candidate.Name()] = candidateReport{victims, candidate.Victims().NumPDBViolations}
	}
}
