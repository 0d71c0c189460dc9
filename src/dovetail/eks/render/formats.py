"""A cluster.yaml as files for other tools: CloudFormation, Terraform, kubectl and Helm."""

from enum import StrEnum

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.desired.desired_state import outputs, wanted
from dovetail.eks.render.manifests import Files, Values, policy_files, software_files


class Format(StrEnum):
    """What to render to."""

    CLOUDFORMATION = "cloudformation"
    TERRAFORM = "terraform"
    MANIFESTS = "manifests"


def rendered(spec: ClusterSpec, form: Format) -> Files:
    """Return the files of a rendering; charts' values and objects are in each of them."""
    resources = wanted(spec)
    values = Values(resources, region=spec.region, account=spec.account)
    files: Files = {}
    if form is Format.CLOUDFORMATION:
        # Late: each takes a while to load, and only one is needed.
        from dovetail.eks.render.cloudformation import cloudformation

        text, left = cloudformation(spec.name, resources, outputs(spec))
        files["cloudformation.json"] = text
    elif form is Format.TERRAFORM:
        from dovetail.eks.render.terraform import terraform

        text, left = terraform(spec.region, resources, outputs(spec))
        files["main.tf.json"] = text
    else:
        left = list(resources)
        files |= policy_files(resources, values)
        # Policies are filled in by other means than the software's files.
        values.open.clear()
    return files | software_files(left, values)
