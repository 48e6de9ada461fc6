package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/utils/ptr"
)

// profiles is a decoded and defaulted KubeSchedulerConfiguration.
type profiles = schedulerconfig.KubeSchedulerConfiguration

const defaultConfig = `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}`

// decodeConfig decodes a configuration as kube-scheduler does: strictly, with all defaults, validated. Empty text is the default.
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
		return nil, fmt.Errorf("config: expected a KubeSchedulerConfiguration, got %s", kind)
	}
	if len(config.Extenders) > 0 {
		return nil, errors.New("config: extenders are not supported")
	}
	config.TypeMeta.APIVersion = kind.GroupVersion().String() // validation needs it, and conversion drops it
	if err := validation.ValidateKubeSchedulerConfiguration(config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return config, nil
}

// filterAllNodes turns off the sampling of nodes in Filter.
func filterAllNodes(config *profiles) {
	config.PercentageOfNodesToScore = ptr.To[int32](100)
	for i := range config.Profiles {
		config.Profiles[i].PercentageOfNodesToScore = nil
	}
}

// tryAllCandidates makes preemption deterministic: by default it starts at a random node and stops at enough candidates.
func tryAllCandidates(config *profiles) {
	for _, profile := range config.Profiles {
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(*schedulerconfig.DefaultPreemptionArgs); ok {
				args.MinCandidateNodesPercentage = 100
			}
		}
	}
}

// setFilterTimeout limits how long DynamicResources searches for devices of one node.
func setFilterTimeout(config *profiles, timeout time.Duration) {
	for _, profile := range config.Profiles {
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(*schedulerconfig.DynamicResourcesArgs); ok {
				args.FilterTimeout = &metav1.Duration{Duration: timeout}
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
