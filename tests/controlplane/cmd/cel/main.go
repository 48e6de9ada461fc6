// Command cel evaluates CEL expressions of device selectors with Kubernetes' own code, for comparison with other evaluators.
//
// Each line of standard input is a case: an expression and a device. Each line of standard output is its outcome, in order.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
)

// longestLine is the longest case in bytes.
const longestLine = 1 << 26

// testCase is one line of input. Attributes and capacity have the form that they have in a ResourceSlice.
type testCase struct {
	Expression string `json:"expression"`
	Device     device `json:"device"`
}

type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

// outcome is one line of output. Matches and MatchError are those of DeviceMatches, Value and Error those of the
// expression itself: a value that is no bool is an error for DeviceMatches.
type outcome struct {
	CompileError string  `json:"compileError,omitempty"`
	Matches      *bool   `json:"matches,omitempty"`
	MatchError   string  `json:"matchError,omitempty"`
	Value        string  `json:"value,omitempty"`
	Error        string  `json:"error,omitempty"`
	Cost         *uint64 `json:"cost,omitempty"`
	InputError   string  `json:"inputError,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<16), longestLine)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for lines.Scan() {
		if err := encoder.Encode(evaluateLine(lines.Bytes())); err != nil {
			fail(err)
		}
		if err := out.Flush(); err != nil {
			fail(err)
		}
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}

func evaluateLine(line []byte) (result outcome) {
	defer func() {
		if problem := recover(); problem != nil {
			result = outcome{InputError: fmt.Sprint("panic: ", problem)}
		}
	}()
	var input testCase
	if err := json.Unmarshal(line, &input); err != nil {
		return outcome{InputError: err.Error()}
	}
	return evaluate(input)
}
