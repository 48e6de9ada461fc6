// Command kube-controller-manager is the unchanged kube-controller-manager, with the registrations its own main package makes.
package main

import (
	"os"
	_ "time/tzdata" // schedules may name a time zone

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client request metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build version metric
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
