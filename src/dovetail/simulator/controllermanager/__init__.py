"""The simulated kube-controller-manager: workloads become pods, lost nodes lose theirs."""
