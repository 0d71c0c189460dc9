"""What all parts of cluster.yaml share: how they are written and checked."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Part(BaseModel):
    """A map in the file: camelCase keys, none that is not known, never changed."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        validate_default=True,
        defer_build=True,
    )


Text = Annotated[str, Field(min_length=1)]
Arn = Annotated[str, Field(pattern=r"^arn:[a-z-]+:[a-z0-9-]+:[a-z0-9-]*:([0-9]{12}|aws)?:.+$")]
KubeName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", min_length=1, max_length=253)
]
"""A name as Kubernetes takes it for an object."""
Labels = dict[Text, str]
