#!/bin/sh
# Installs what the templates do not create, in dependency order.
# Chart directories are relative to the current directory.
set -eu
here=$(dirname "$0")
: "${EKS_CLUSTER_GROUPLESS_ENDPOINT:?the endpoint of eks-cluster groupless}"
: "${IAM_ROLE_GROUPLESS_US_EAST_1_DOVETAIL_ARN:?the arn of iam-role groupless-us-east-1-dovetail}"
export EKS_CLUSTER_GROUPLESS_ENDPOINT IAM_ROLE_GROUPLESS_US_EAST_1_DOVETAIL_ARN
aws iam get-role --role-name AWSServiceRoleForEC2Spot > /dev/null 2>&1 || aws iam create-service-linked-role --aws-service-name spot.amazonaws.com
cat "$here/values/karpenter-dovetail-crd.yaml" | helm upgrade --install dovetail-crd deploy/charts/dovetail-crd --namespace karpenter --create-namespace --wait --values -
cat "$here/manifests/flowschema-dovetail-leader-election.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/flowschema-dovetail-workload-high.yaml" | kubectl apply --server-side -f -
envsubst '${EKS_CLUSTER_GROUPLESS_ENDPOINT} ${IAM_ROLE_GROUPLESS_US_EAST_1_DOVETAIL_ARN}' < "$here/values/karpenter-dovetail.yaml" | helm upgrade --install dovetail deploy/charts/dovetail --namespace karpenter --create-namespace --wait --values -
cat "$here/manifests/ec2nodeclass-default.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/nodepool-default.yaml" | kubectl apply --server-side -f -
cat "$here/values/kube-system-metrics-server.yaml" | helm upgrade --install metrics-server metrics-server --namespace kube-system --create-namespace --repo https://kubernetes-sigs.github.io/metrics-server --version 3.12.2 --wait --values -
cat "$here/manifests/namespace-chip.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/deployment-chip-chip.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/service-chip-chip.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/horizontalpodautoscaler-chip-chip.yaml" | kubectl apply --server-side -f -
