// Command oracle evaluates pods of a cluster given as JSON with kube-scheduler's own framework, for comparison with other schedulers.
//
// Each line of standard input is a document: objects, and either pods to evaluate each by itself or a sequence of pods to
// schedule one after the other. Results are JSON lines on standard output: one for each evaluated pod, one for each sequence.
// An invalid document results in a line with "error"; then the next one is read. So does one that takes longer than the deadline,
// with "skipped".
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
)

// longestLine is the longest document in bytes: some thousand nodes.
const longestLine = 1 << 30

func main() {
	verbosity := flag.Int("v", -1, "log kube-scheduler's own lines up to this level to standard error; -1 for none")
	deadline := flag.Duration("deadline", 5*time.Second, "skip a document that takes longer; a sequence may take ten times as long")
	flag.Parse()
	if err := prepare(*verbosity); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if err := processAll(os.Stdin, os.Stdout, *deadline); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// prepare sets process-wide state: logs, panics of worker goroutines, feature gates, memory.
func prepare(verbosity int) error {
	if verbosity < 0 {
		klog.SetLogger(logr.Discard())
	} else if err := setLogLevel(verbosity); err != nil {
		return err
	}
	utilruntime.ErrorHandlers = nil // they log, and sleep a millisecond between errors
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers[:0], rememberPanic)
	utilruntime.ReallyCrash = false
	// Documents are many and short-lived: fewer collections are worth the memory.
	debug.SetGCPercent(400)
	// Preemption decides the same either way; when synchronous, its effects are visible when it returns.
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.SchedulerAsyncPreemption): false})
}

func setLogLevel(verbosity int) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	return flags.Set("v", fmt.Sprint(verbosity))
}

// processAll processes documents until the end of the input; the results of one are written before the next is read.
func processAll(in io.Reader, out io.Writer, deadline time.Duration) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	buffered := bufio.NewWriterSize(out, 1<<20)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		for _, result := range process(lines.Bytes(), deadline) {
			if err := encoder.Encode(result); err != nil {
				return err
			}
		}
		if err := buffered.Flush(); err != nil {
			return err
		}
	}
	return lines.Err()
}
