#!/bin/sh
# What the templates do not make, in the order in which it can be made.
set -eu
: "${EKS_CLUSTER_KARPENTER_MNG_ENDPOINT:?the endpoint of eks-cluster karpenter-mng}"
export EKS_CLUSTER_KARPENTER_MNG_ENDPOINT
cat values/kube-system-dovetail-crd.yaml | helm upgrade --install dovetail-crd deploy/charts/dovetail-crd --namespace kube-system --create-namespace --wait --values -
envsubst '${EKS_CLUSTER_KARPENTER_MNG_ENDPOINT}' < values/kube-system-dovetail.yaml | helm upgrade --install dovetail deploy/charts/dovetail --namespace kube-system --create-namespace --wait --values -
cat manifests/ec2nodeclass-default.yaml | kubectl apply --server-side -f -
cat manifests/nodepool-default.yaml | kubectl apply --server-side -f -
cat manifests/deployment-default-inflate.yaml | kubectl apply --server-side -f -
