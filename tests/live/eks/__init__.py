"""EKS for live tests: moto for AWS, a real control plane for Kubernetes."""
