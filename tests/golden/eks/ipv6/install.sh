#!/bin/sh
# Installs what the templates do not create, in dependency order.
# Chart directories are relative to the current directory.
set -eu
here=$(dirname "$0")
: "${EKS_CLUSTER_IPV6_ENDPOINT:?the endpoint of eks-cluster ipv6}"
export EKS_CLUSTER_IPV6_ENDPOINT
cat "$here/values/kube-system-dovetail-crd.yaml" | helm upgrade --install dovetail-crd deploy/charts/dovetail-crd --namespace kube-system --create-namespace --wait --values -
envsubst '${EKS_CLUSTER_IPV6_ENDPOINT}' < "$here/values/kube-system-dovetail.yaml" | helm upgrade --install dovetail deploy/charts/dovetail --namespace kube-system --create-namespace --wait --values -
cat "$here/manifests/ec2nodeclass-default.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/nodepool-default.yaml" | kubectl apply --server-side -f -
