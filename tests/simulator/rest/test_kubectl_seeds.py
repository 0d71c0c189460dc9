"""The commands that users' own notes give, word for word."""

import shlex

from dovetail.ports.api_resources import DEPLOYMENTS
from tests.simulator.rest.objects import INFLATE, add, add_deployment, add_pod, add_pool
from tests.simulator.rest.rest_server import Cluster, Kubectl

COMPUTE_TYPE = "eks.amazonaws.com/compute-type"


def run(kubectl: Kubectl, line: str) -> str:
    program, *arguments = shlex.split(line)
    assert program == "kubectl"
    return kubectl(*arguments)


def test_the_walk_through_of_inflate(cluster: Cluster, kubectl: Kubectl) -> None:
    kubectl.write("app/inflate.yaml", INFLATE)

    applied = run(kubectl, "kubectl apply -f app/inflate.yaml")
    before = run(kubectl, "kubectl get deploy")
    up = run(kubectl, "kubectl scale deployment inflate --replicas 10 ")
    after = run(kubectl, "kubectl get deploy")
    run(kubectl, "kubectl scale deployment inflate --replicas 0")
    gone = run(kubectl, "kubectl delete deployment inflate")

    assert applied == "deployment.apps/inflate created\n"
    assert before.split()[6] == "0/0"
    assert up == "deployment.apps/inflate scaled\n"
    assert after.split()[6] == "0/10"
    assert 'deployment.apps "inflate" deleted' in gone


def test_server_side_apply_of_an_example_and_its_deletion(kubectl: Kubectl) -> None:
    kubectl.write("example.yaml", INFLATE)

    run(kubectl, "kubectl apply --server-side -f example.yaml")
    run(kubectl, "kubectl scale deployment inflate --replicas=3")
    run(kubectl, "kubectl get nodes")
    run(kubectl, "kubectl delete -f example.yaml")

    assert run(kubectl, "kubectl get deploy") == ""


def test_an_application_is_scaled_in_its_own_namespace(kubectl: Kubectl) -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: chip}\n---"
    chip = INFLATE.replace("name: inflate", "name: chip\n  namespace: chip", 1)
    kubectl.write("files/deploy/demo/chip.yaml", namespace + chip)

    run(kubectl, "kubectl apply -f files/deploy/demo/chip.yaml")
    run(kubectl, "kubectl scale --replicas 100 deployment/chip -n chip")
    up = run(kubectl, "kubectl get deploy -n chip")
    run(kubectl, "kubectl scale --replicas 4 deployment/chip -n chip")

    assert "0/100" in up
    assert "0/4" in run(kubectl, "kubectl get deploy -n chip")


def test_the_annotation_that_keeps_coredns_on_fargate_is_removed(cluster: Cluster, kubectl: Kubectl) -> None:
    coredns = dict(add_deployment(cluster, "coredns"))
    template = {**coredns["spec"]["template"]}
    template["metadata"] = {**template["metadata"], "annotations": {COMPUTE_TYPE: "ec2"}}
    spec = {**coredns["spec"], "template": template}
    meta = {"name": "coredns"}
    add(cluster, DEPLOYMENTS, {"metadata": meta, "spec": spec}, namespace="kube-system")

    run(
        kubectl,
        "kubectl patch deployment coredns -n kube-system --type json "
        """-p='[{"op": "remove", "path": "/spec/template/metadata/annotations/"""
        """eks.amazonaws.com~1compute-type"}]'""",
    )

    left = run(kubectl, "kubectl get deployment coredns -n kube-system -o yaml")
    assert COMPUTE_TYPE not in left


def test_pools_and_pods_are_looked_at(cluster: Cluster, kubectl: Kubectl) -> None:
    add_pool(cluster)
    add_pod(cluster, "web")
    kubectl.write("deployment_amd64.yaml", INFLATE)
    kubectl.write("deployment_arm64.yaml", INFLATE.replace("inflate", "arm"))

    pools = run(kubectl, "kubectl -n karpenter get nodepools.karpenter.sh")
    run(kubectl, "kubectl apply -f deployment_amd64.yaml")
    run(kubectl, "kubectl apply -f deployment_arm64.yaml")
    pods = run(kubectl, "kubectl get pods -o wide")

    assert pools.split()[:5] == ["NAME", "NODECLASS", "NODES", "READY", "AGE"]
    assert "ip-10-0-0-1" in pods


def test_a_flag_that_kubectl_no_longer_has_is_refused_by_kubectl(kubectl: Kubectl) -> None:
    image = "public.ecr.aws/eks-distro/kubernetes/pause:3.2"

    result = kubectl.run("create", "deployment", "inflate", f"--image={image}", "--requests.cpu=1")

    assert "unknown flag: --requests.cpu" in result.stderr
