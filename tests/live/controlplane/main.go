// Command controlplane runs one component of a Kubernetes control plane.
//
// It links etcd and the components' own command packages, so that one
// `go build` gives the tests a real control plane without images or a
// container runtime. A component exits on EOF of its standard input, so that
// it cannot outlive the process that started it.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var components = map[string]func() *cobra.Command{
	"etcd":               newEtcdCommand,
	"apiserver":          apiserver.NewAPIServerCommand,
	"controller-manager": controllermanager.NewControllerManagerCommand,
	"scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 || components[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: controlplane etcd|apiserver|controller-manager|scheduler [flags]")
		os.Exit(2)
	}
	go exitOnEOF()

	command := components[os.Args[1]]()
	command.SetArgs(os.Args[2:])
	os.Exit(cli.Run(command))
}

func exitOnEOF() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	// A graceful stop sends a signal first; give its handler time.
	time.Sleep(time.Second)
	os.Exit(1)
}
