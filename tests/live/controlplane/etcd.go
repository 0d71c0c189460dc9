package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// newEtcdCommand returns a command that serves a single etcd member.
func newEtcdCommand() *cobra.Command {
	var dataDir, clientURL, peerURL string
	command := &cobra.Command{
		Use:          "etcd",
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return serveEtcd(dataDir, clientURL, peerURL)
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", "directory that holds the data")
	command.Flags().StringVar(&clientURL, "client-url", "", "where clients connect")
	command.Flags().StringVar(&peerURL, "peer-url", "", "where other members would connect")
	for _, name := range []string{"data-dir", "client-url", "peer-url"} {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return command
}

func serveEtcd(dataDir, clientURL, peerURL string) error {
	client, err := url.Parse(clientURL)
	if err != nil {
		return err
	}
	peer, err := url.Parse(peerURL)
	if err != nil {
		return err
	}

	config := embed.NewConfig()
	config.Dir = dataDir
	config.ListenClientUrls = []url.URL{*client}
	config.AdvertiseClientUrls = []url.URL{*client}
	config.ListenPeerUrls = []url.URL{*peer}
	config.AdvertisePeerUrls = []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.LogLevel = "warn"
	// Tests compact the history through the HTTP gateway.
	config.EnableGRPCGateway = true
	// Test data need not survive a crash of the host.
	config.UnsafeNoFsync = true

	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-server.Server.ReadyNotify():
	case <-stop:
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("etcd was not ready after a minute")
	}
	select {
	case err := <-server.Err():
		return err
	case <-stop:
		return nil
	}
}
