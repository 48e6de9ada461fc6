package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/utils/ptr"
)

// profiles is a decoded and defaulted KubeSchedulerConfiguration.
type profiles = schedulerconfig.KubeSchedulerConfiguration

const defaultConfig = `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}`

// decodeConfig reads a configuration as kube-scheduler does: strictly, with all defaults, validated. Nothing means the default.
func decodeConfig(text json.RawMessage) (*profiles, error) {
	if len(text) == 0 || string(text) == "null" {
		text = json.RawMessage(defaultConfig)
	}
	decoded, kind, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	config, ok := decoded.(*profiles)
	if !ok {
		return nil, fmt.Errorf("config: a KubeSchedulerConfiguration is wanted, not %s", kind)
	}
	if len(config.Extenders) > 0 {
		return nil, errors.New("config: extenders are not asked")
	}
	config.TypeMeta.APIVersion = kind.GroupVersion().String() // validation asks for it, and conversion drops it
	if err := validation.ValidateKubeSchedulerConfiguration(config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return config, nil
}

// filterAllNodes takes sampling out of the search for feasible nodes.
func filterAllNodes(config *profiles) {
	config.PercentageOfNodesToScore = ptr.To[int32](100)
	for i := range config.Profiles {
		config.Profiles[i].PercentageOfNodesToScore = nil
	}
}

// tryAllCandidates takes chance out of preemption, which else starts at a random node and stops when it has enough candidates.
func tryAllCandidates(config *profiles) {
	for _, profile := range config.Profiles {
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(*schedulerconfig.DefaultPreemptionArgs); ok {
				args.MinCandidateNodesPercentage = 100
			}
		}
	}
}

func options(config *profiles) []scheduler.Option {
	return []scheduler.Option{
		scheduler.WithComponentConfigVersion(config.TypeMeta.APIVersion),
		scheduler.WithProfiles(config.Profiles...),
		scheduler.WithPercentageOfNodesToScore(config.PercentageOfNodesToScore),
		scheduler.WithParallelism(1),
	}
}
