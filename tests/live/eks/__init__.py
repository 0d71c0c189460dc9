"""EKS as the live tests have it: moto for AWS, our control plane for Kubernetes."""
