"""Rendering of a cluster.yaml as files for CloudFormation, Terraform, kubectl, Helm."""

from enum import StrEnum

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.desired.desired_state import desired_state, outputs
from dovetail.eks.render.manifests import Files, ValueResolver, install_files, policy_files


class Format(StrEnum):
    """Output format of a rendering."""

    CLOUDFORMATION = "cloudformation"
    TERRAFORM = "terraform"
    MANIFESTS = "manifests"


def render_files(config: ClusterConfig, render_format: Format) -> Files:
    """Return the files of a rendering; all formats include charts and objects."""
    resources = desired_state(config)
    values = ValueResolver(resources, region=config.region, account=config.account)
    files: Files = {}
    if render_format is Format.CLOUDFORMATION:
        # Imported here: each takes a while to load, and only one is needed.
        from dovetail.eks.render.cloudformation import cloudformation

        text, remaining = cloudformation(config.name, resources, outputs(config))
        files["cloudformation.json"] = text
    elif render_format is Format.TERRAFORM:
        from dovetail.eks.render.terraform import terraform

        text, remaining = terraform(config.region, resources, outputs(config))
        files["main.tf.json"] = text
    else:
        remaining = list(resources)
        files |= policy_files(resources, values)
        # install.sh does not apply the policies, so it needs none of their variables.
        values.variables.clear()
    return files | install_files(remaining, values)
