package main

import (
	"context"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	resourceapi "k8s.io/api/resource/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// compiler has the features of a default cluster of this release.
var compiler = dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true})

func evaluate(input testCase) outcome {
	compiled := compiler.CompileCELExpression(input.Expression, dracel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return outcome{CompileError: compiled.Error.Error()}
	}
	var result outcome
	matches, details, err := compiled.DeviceMatches(context.Background(), dracel.Device{
		Driver:                   input.Device.Driver,
		AllowMultipleAllocations: input.Device.AllowMultipleAllocations,
		Attributes:               input.Device.Attributes,
		Capacity:                 input.Device.Capacity,
	})
	if err != nil {
		result.MatchError = err.Error()
	} else {
		result.Matches = &matches
	}
	if details != nil {
		result.Cost = details.ActualCost()
	}
	variables, err := variables(compiled, input.Device)
	if err != nil {
		result.Error = err.Error()
		return result
	}
	value, _, err := compiled.Program.ContextEval(context.Background(), variables)
	if err != nil {
		result.Error = err.Error()
		return result
	}
	result.Value = text(value)
	return result
}

// variables returns the input of the program as DeviceMatches builds it: DeviceMatches returns only whether the value is true.
func variables(compiled dracel.CompilationResult, input device) (map[string]any, error) {
	attributes, err := attributes(input)
	if err != nil {
		return nil, err
	}
	capacity := map[string]any{}
	for name, entry := range input.Capacity {
		domain, id := split(name, input.Driver)
		if capacity[domain] == nil {
			capacity[domain] = map[string]apiservercel.Quantity{}
		}
		capacity[domain].(map[string]apiservercel.Quantity)[id] = apiservercel.Quantity{Quantity: &entry.Value}
	}
	adapter := compiled.Environment.CELTypeAdapter()
	empty := adapter.NativeToValue(map[string]any{})
	multiple := input.AllowMultipleAllocations != nil && *input.AllowMultipleAllocations
	return map[string]any{"device": map[string]any{
		"driver":                   input.Driver,
		"allowMultipleAllocations": multiple,
		"attributes":               defaultMap{types.NewStringInterfaceMap(adapter, attributes), empty},
		"capacity":                 defaultMap{types.NewStringInterfaceMap(adapter, capacity), empty},
	}}, nil
}

// defaultMap finds an empty map under every key that it does not hold.
type defaultMap struct {
	traits.Mapper
	empty ref.Val
}

func (m defaultMap) Find(key ref.Val) (ref.Val, bool) {
	if value, found := m.Mapper.Find(key); found {
		return value, true
	}
	return m.empty, true
}

func attributes(input device) (map[string]any, error) {
	result := map[string]any{}
	for name, attribute := range input.Attributes {
		value, err := native(attribute)
		if err != nil {
			return nil, err
		}
		domain, id := split(name, input.Driver)
		if result[domain] == nil {
			result[domain] = map[string]any{}
		}
		result[domain].(map[string]any)[id] = value
	}
	return result, nil
}

func split(name resourceapi.QualifiedName, driver string) (domain, id string) {
	if before, after, found := strings.Cut(string(name), "/"); found {
		return before, after
	}
	return driver, string(name)
}
