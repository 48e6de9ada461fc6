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
// decides only among the nodes that those before it find equally good. It picks any of the nodes left by the last.
var criteria = []func(*extenderv1.Victims) int64{
	func(victims *extenderv1.Victims) int64 { return -victims.NumPDBViolations },
	func(victims *extenderv1.Victims) int64 { return -int64(corev1helpers.PodPriority(victims.Pods[0])) },
	func(victims *extenderv1.Victims) int64 { return -sumOfPriorities(victims.Pods) },
	func(victims *extenderv1.Victims) int64 { return -int64(len(victims.Pods)) },
	latestStart,
}

// sumOfPriorities counts from the least priority there is, so that few victims of negative priority beat many.
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

// ties names the nodes that are equally good: those of which one is picked arbitrarily.
func (all candidates) ties() []string {
	left := all
	for _, points := range criteria {
		var best candidates
		most := int64(math.MinInt64)
		for _, candidate := range left {
			p := points(candidate.Victims())
			if p > most {
				most, best = p, nil
			}
			if p == most {
				best = append(best, candidate)
			}
		}
		left = best
	}
	var names []string
	for _, candidate := range left {
		names = append(names, candidate.Name())
	}
	return inOrder(names)
}

// describe adds the candidates to the report.
func (said *preemptionReport) describe(all candidates) {
	said.Ties = all.ties()
	said.Candidates = make(map[string]candidateReport, len(all))
	for _, candidate := range all {
		victims := []string{}
		for _, pod := range candidate.Victims().Pods {
			victims = append(victims, nameOf(pod))
		}
		said.Candidates[candidate.Name()] = candidateReport{victims, candidate.Victims().NumPDBViolations}
	}
}
