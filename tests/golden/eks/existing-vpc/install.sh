#!/bin/sh
# Installs what the templates do not create, in dependency order.
# Chart directories are relative to the current directory.
set -eu
here=$(dirname "$0")
: "${EKS_CLUSTER_DEV_EKS_CLUSTER_ENDPOINT:?the endpoint of eks-cluster dev-eks-cluster}"
export EKS_CLUSTER_DEV_EKS_CLUSTER_ENDPOINT
aws ec2 create-tags --resources subnet-0123456789abcdef1 subnet-0123456789abcdef2 subnet-0123456789abcdef3 --tags Key=karpenter.sh/discovery,Value=dev-eks-cluster
aws iam get-role --role-name AWSServiceRoleForEC2Spot > /dev/null 2>&1 || aws iam create-service-linked-role --aws-service-name spot.amazonaws.com
cat "$here/values/kube-system-dovetail-crd.yaml" | helm upgrade --install dovetail-crd deploy/charts/dovetail-crd --namespace kube-system --create-namespace --wait --values -
envsubst '${EKS_CLUSTER_DEV_EKS_CLUSTER_ENDPOINT}' < "$here/values/kube-system-dovetail.yaml" | helm upgrade --install dovetail deploy/charts/dovetail --namespace kube-system --create-namespace --wait --values -
cat "$here/manifests/ec2nodeclass-default.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/nodepool-x86.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/nodepool-graviton.yaml" | kubectl apply --server-side -f -
cat "$here/values/kube-system-metrics-server.yaml" | helm upgrade --install metrics-server metrics-server --namespace kube-system --create-namespace --repo https://kubernetes-sigs.github.io/metrics-server --version 3.12.2 --wait --values -
cat "$here/manifests/deployment-default-nginx-amd64.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/deployment-default-nginx-arm64.yaml" | kubectl apply --server-side -f -
