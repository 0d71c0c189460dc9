"""Clients define kinds of their own, and kubectl handles them like built-in ones."""

from pathlib import Path

import yaml

from dovetail.ports.api_resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS
from tests.simulator.rest.objects import add_deployment
from tests.simulator.rest.rest_server import Cluster, Kubectl

DEFINITIONS = (Path(__file__).parent / "charts/certificates/crds/certificates.yaml").read_text()
CERTIFICATE = """
apiVersion: certs.example.com/v1
kind: Certificate
metadata: {name: shop}
spec: {secretName: shop-tls, issuerRef: {name: ours}}
"""


def test_kubectl_creates_lists_explains_and_deletes_objects_of_a_new_kind(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEFINITIONS)
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=5s")

    created = kubectl("apply", "-f", "-", stdin=CERTIFICATE)
    again = kubectl("apply", "-f", "-", stdin=CERTIFICATE)
    listed = kubectl("get", "certs", "-o", "wide").splitlines()
    explained = kubectl("explain", "certificate.spec")
    stored = yaml.safe_load(kubectl("get", "certificate", "shop", "-o", "yaml"))
    kubectl("delete", "crd", "certificates.certs.example.com")
    gone = kubectl.run("get", "certs")

    assert created.split()[-1] == "created"
    assert again.split()[-1] == "unchanged"
    assert listed[0].split() == ["NAME", "READY", "SECRET", "ISSUER", "AGE"]
    assert listed[1].split()[:3] == ["shop", "shop-tls", "ours"]
    assert "Name of the Secret." in explained
    assert "-required-" in explained
    assert stored["spec"]["privateKey"] == {"algorithm": "RSA"}
    assert stored["spec"]["issuerRef"] == {"name": "ours", "kind": "Issuer"}
    assert "the server doesn't have a resource type" in gone.stderr


def test_unknown_fields_of_a_new_kind_are_refused_or_pruned_as_kubectl_asks(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEFINITIONS)
    misspelt = CERTIFICATE.replace("secretName: shop-tls", "secretName: shop-tls, secertName: x")

    refused = kubectl.run("apply", "-f", "-", stdin=misspelt)
    kubectl("apply", "--validate=false", "-f", "-", stdin=misspelt)

    assert 'unknown field "spec.secertName"' in refused.stderr
    assert "secertName" not in kubectl("get", "cert", "shop", "-o", "jsonpath={.spec}")


def test_every_served_version_shows_the_same_objects(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEFINITIONS)
    issuer = (
        "apiVersion: certs.example.com/v1beta1\nkind: ClusterIssuer\nmetadata: {name: ours}\nspec: {a: 1}\n"
    )

    kubectl("apply", "-f", "-", stdin=issuer)

    for version in ("v1", "v1beta1"):
        path = f"/apis/certs.example.com/{version}/clusterissuers/ours"
        shown = yaml.safe_load(kubectl("get", "--raw", path))
        assert shown["apiVersion"] == f"certs.example.com/{version}"
        assert shown["spec"] == {"a": 1}


def test_a_malformed_definition_is_refused(cluster: Cluster, kubectl: Kubectl) -> None:
    wrong = DEFINITIONS.replace("name: certificates.certs.example.com", "name: certs.example.com")

    refused = kubectl.run("apply", "-f", "-", stdin=wrong)

    assert 'must be spec.names.plural+"."+spec.group' in refused.stderr
    names = [item["metadata"]["name"] for item in cluster.api.list(CUSTOM_RESOURCE_DEFINITIONS).items]
    assert names == ["clusterissuers.certs.example.com"]


def test_objects_that_a_custom_object_owns_are_deleted_with_it(cluster: Cluster, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEFINITIONS)
    kubectl("apply", "-f", "-", stdin=CERTIFICATE)
    uid = kubectl("get", "cert", "shop", "-o", "jsonpath={.metadata.uid}")
    owner = f'{{"apiVersion":"certs.example.com/v1","kind":"Certificate","name":"shop","uid":"{uid}"}}'
    add_deployment(cluster, "inflate")
    kubectl(
        "patch",
        "deployment",
        "inflate",
        "--type=merge",
        "-p",
        f'{{"metadata":{{"ownerReferences":[{owner}]}}}}',
    )

    kubectl("delete", "cert", "shop")

    assert cluster.api.list(DEPLOYMENTS).items == []


def test_kubectl_autoscale_works_and_both_versions_of_autoscalers_agree(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    add_deployment(cluster, "inflate")
    name, path = "inflate", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/inflate"

    kubectl("autoscale", "deployment", name, "--min=2", "--max=5", "--cpu-percent=60")
    shown = yaml.safe_load(kubectl("get", "--raw", path))
    patch = '{"spec":{"targetCPUUtilizationPercentage":70}}'
    resource = "horizontalpodautoscalers.v1.autoscaling"
    kubectl("patch", resource, name, "--type=merge", "-p", patch)

    assert shown["apiVersion"] == "autoscaling/v1"
    assert shown["spec"]["targetCPUUtilizationPercentage"] == 60
    stored = cluster.api.get(HORIZONTAL_POD_AUTOSCALERS, name, "default")["spec"]
    assert (stored["minReplicas"], stored["maxReplicas"]) == (2, 5)
    assert stored["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
