// Command oracle says what kube-scheduler's own framework makes of a cluster given as JSON, so that other schedulers can be held against it.
//
// Each line of standard input is a document: objects, and either pods to evaluate each by itself or a sequence of pods to
// schedule one after the other. Answers are JSON lines on standard output: one for each evaluated pod, one for each sequence.
// A document that cannot be read is answered by a line with "error"; the next one is read all the same.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"

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
	flag.Parse()
	if err := prepare(*verbosity); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if err := answerAll(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// prepare sets what holds for the whole process: logs, panics of worker goroutines, feature gates, memory.
func prepare(verbosity int) error {
	if verbosity < 0 {
		klog.SetLogger(logr.Discard())
	} else if err := setLogLevel(verbosity); err != nil {
		return err
	}
	utilruntime.ErrorHandlers = nil // they log, and wait a millisecond between errors
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers[:0], rememberPanic)
	utilruntime.ReallyCrash = false
	// Documents are many and short-lived: fewer collections are worth the memory.
	debug.SetGCPercent(400)
	// Preemption decides the same either way; done at once, what it does can be seen when it returns.
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.SchedulerAsyncPreemption): false})
}

func setLogLevel(verbosity int) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	return flags.Set("v", fmt.Sprint(verbosity))
}

// answerAll answers documents until there are no more; the answers to one are written before the next is read.
func answerAll(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	buffered := bufio.NewWriterSize(out, 1<<20)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		for _, answer := range answer(lines.Bytes()) {
			if err := encoder.Encode(answer); err != nil {
				return err
			}
		}
		if err := buffered.Flush(); err != nil {
			return err
		}
	}
	return lines.Err()
}
