"""Base model and common field types of cluster.yaml."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class ConfigModel(BaseModel):
    """A map in the file: camelCase keys, unknown keys rejected, immutable."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, validate_default=True, defer_build=True
    )


Text = Annotated[str, Field(min_length=1)]
Arn = Annotated[str, Field(pattern=r"^arn:[a-z-]+:[a-z0-9-]+:[a-z0-9-]*:([0-9]{12}|aws)?:.+$")]
KubeName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", min_length=1, max_length=253)]
"""A valid name of a Kubernetes object."""
Labels = dict[Text, str]
