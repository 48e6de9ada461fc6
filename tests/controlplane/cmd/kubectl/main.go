// Command kubectl is the unchanged kubectl; the tests use it to see the clusters as a user does.
package main

import (
	_ "k8s.io/client-go/plugin/pkg/client/auth" // credentials a kubeconfig may name
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
