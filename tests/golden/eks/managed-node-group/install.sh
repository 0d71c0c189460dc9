#!/bin/sh
# Installs what the templates do not create, in dependency order.
# Chart directories are relative to the current directory.
set -eu
here=$(dirname "$0")
: "${AWS_ACCOUNT:?the account of aws}"
: "${AWS_PARTITION:?the partition of aws}"
: "${EKS_CLUSTER_BACKEND_ENDPOINT:?the endpoint of eks-cluster backend}"
: "${IAM_ROLE_BACKEND_US_EAST_1_DOVETAIL_ARN:?the arn of iam-role backend-us-east-1-dovetail}"
: "${IAM_ROLE_BACKEND_US_EAST_1_REPORTING_REPORTS_ARN:?the arn of iam-role backend-us-east-1-reporting-reports}"
export AWS_ACCOUNT AWS_PARTITION EKS_CLUSTER_BACKEND_ENDPOINT IAM_ROLE_BACKEND_US_EAST_1_DOVETAIL_ARN IAM_ROLE_BACKEND_US_EAST_1_REPORTING_REPORTS_ARN
aws ec2 create-tags --resources subnet-0a1b2c3d4e5f60001 subnet-0a1b2c3d4e5f60002 subnet-0a1b2c3d4e5f60003 --tags Key=karpenter.sh/discovery,Value=backend
aws iam get-role --role-name AWSServiceRoleForEC2Spot > /dev/null 2>&1 || aws iam create-service-linked-role --aws-service-name spot.amazonaws.com
cat "$here/values/kube-system-dovetail-crd.yaml" | helm upgrade --install dovetail-crd deploy/charts/dovetail-crd --namespace kube-system --create-namespace --wait --values -
envsubst '${AWS_ACCOUNT} ${AWS_PARTITION}' < "$here/manifests/configmap-kube-system-aws-auth.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/namespace-reporting.yaml" | kubectl apply --server-side -f -
envsubst '${IAM_ROLE_BACKEND_US_EAST_1_REPORTING_REPORTS_ARN}' < "$here/manifests/serviceaccount-reporting-reports.yaml" | kubectl apply --server-side -f -
envsubst '${EKS_CLUSTER_BACKEND_ENDPOINT} ${IAM_ROLE_BACKEND_US_EAST_1_DOVETAIL_ARN}' < "$here/values/kube-system-dovetail.yaml" | helm upgrade --install dovetail deploy/charts/dovetail --namespace kube-system --create-namespace --wait --values -
cat "$here/manifests/ec2nodeclass-default.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/nodepool-general.yaml" | kubectl apply --server-side -f -
cat "$here/manifests/nodepool-spot.yaml" | kubectl apply --server-side -f -
cat "$here/values/kube-system-metrics-server.yaml" | helm upgrade --install metrics-server metrics-server --namespace kube-system --create-namespace --repo https://kubernetes-sigs.github.io/metrics-server --version 3.12.2 --wait --values -
cat "$here/values/kube-system-kube-state-metrics.yaml" | helm upgrade --install kube-state-metrics kube-state-metrics --namespace kube-system --create-namespace --repo https://prometheus-community.github.io/helm-charts --version 5.28.0 --wait --values -
cat "$here/values/keda-keda.yaml" | helm upgrade --install keda keda --namespace keda --create-namespace --repo https://kedacore.github.io/charts --version 2.16.1 --wait --values -
cat "$here/values/kube-system-vertical-pod-autoscaler.yaml" | helm upgrade --install vertical-pod-autoscaler vpa --namespace kube-system --create-namespace --repo https://charts.fairwinds.com/stable --version 4.7.1 --wait --values -
cat "$here/values/kube-system-kube-ops-view.yaml" | helm upgrade --install kube-ops-view kube-ops-view --namespace kube-system --create-namespace --repo https://christianhuth.github.io/helm-charts --version 3.6.0 --wait --values -
cat "$here/values/kube-system-node-termination-handler.yaml" | helm upgrade --install node-termination-handler oci://public.ecr.aws/aws-ec2/helm/aws-node-termination-handler --namespace kube-system --create-namespace --version 0.27.0 --wait --values -
cat "$here/manifests/deployment-default-inflate.yaml" | kubectl apply --server-side -f -
