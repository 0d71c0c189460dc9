#!/bin/sh
# Installs what the templates do not create, in dependency order.
# Chart directories are relative to the current directory.
set -eu
here=$(dirname "$0")
: "${EKS_CLUSTER_PLATFORM_ONE_ENDPOINT:?the endpoint of eks-cluster platform-one}"
: "${IAM_ROLE_PLATFORM_ONE_US_EAST_1_KARPENTER_ARN:?the arn of iam-role platform-one-us-east-1-karpenter}"
export EKS_CLUSTER_PLATFORM_ONE_ENDPOINT IAM_ROLE_PLATFORM_ONE_US_EAST_1_KARPENTER_ARN
aws iam get-role --role-name AWSServiceRoleForEC2Spot > /dev/null 2>&1 || aws iam create-service-linked-role --aws-service-name spot.amazonaws.com
cat "$here/values/karpenter-karpenter-crd.yaml" | helm upgrade --install karpenter-crd oci://public.ecr.aws/karpenter/karpenter-crd --namespace karpenter --create-namespace --version 1.8.1 --wait --values -
cat "$here/manifests/flowschema-karpenter-leader-election.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/flowschema-karpenter-workload-high.yaml" | kubectl apply --server-side -f -
envsubst '${EKS_CLUSTER_PLATFORM_ONE_ENDPOINT} ${IAM_ROLE_PLATFORM_ONE_US_EAST_1_KARPENTER_ARN}' < "$here/values/karpenter-karpenter.yaml" | helm upgrade --install karpenter oci://public.ecr.aws/karpenter/karpenter --namespace karpenter --create-namespace --version 1.8.1 --wait --values -
cat "$here/manifests/ec2nodeclass-default.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/nodepool-default.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/nodepool-gpu.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/nodepool-neuron.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/deployment-default-inflate.yaml" | kubectl apply --server-side -f -
