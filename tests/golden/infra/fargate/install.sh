#!/bin/sh
# What the templates do not make, in the order in which it can be made.
set -eu
: "${EKS_CLUSTER_GROUPLESS_ENDPOINT:?the endpoint of eks-cluster groupless}"
: "${IAM_ROLE_GROUPLESS_DOVETAIL_ARN:?the arn of iam-role groupless-dovetail}"
export EKS_CLUSTER_GROUPLESS_ENDPOINT IAM_ROLE_GROUPLESS_DOVETAIL_ARN
cat values/karpenter-dovetail-crd.yaml | helm upgrade --install dovetail-crd deploy/charts/dovetail-crd --namespace karpenter --create-namespace --wait --values -
cat manifests/flowschema-dovetail-leader-election.yaml | kubectl apply --server-side -f -
cat manifests/flowschema-dovetail-workload-high.yaml | kubectl apply --server-side -f -
envsubst '${EKS_CLUSTER_GROUPLESS_ENDPOINT} ${IAM_ROLE_GROUPLESS_DOVETAIL_ARN}' < values/karpenter-dovetail.yaml | helm upgrade --install dovetail deploy/charts/dovetail --namespace karpenter --create-namespace --wait --values -
cat manifests/ec2nodeclass-default.yaml | kubectl apply --server-side -f -
cat manifests/nodepool-default.yaml | kubectl apply --server-side -f -
cat values/kube-system-metrics-server.yaml | helm upgrade --install metrics-server metrics-server --namespace kube-system --create-namespace --repo https://kubernetes-sigs.github.io/metrics-server --version 3.12.2 --wait --values -
cat manifests/namespace-chip.yaml | kubectl apply --server-side -f -
cat manifests/deployment-chip-chip.yaml | kubectl apply --server-side -f -
cat manifests/service-chip-chip.yaml | kubectl apply --server-side -f -
cat manifests/horizontalpodautoscaler-chip-chip.yaml | kubectl apply --server-side -f -
