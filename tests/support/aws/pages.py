"""The whole EC2 catalogue in pages, as EC2 sends them."""

from xml.etree import ElementTree

import boto3
from botocore.parsers import create_parser

from dovetail.aws.instancetype.descriptions import decode_instance_type
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType


class Pages:
    """Instance type descriptions of moto."""

    def __init__(self, url: str) -> None:
        client = boto3.client("ec2", region_name="us-east-1", endpoint_url=url)
        responses: list[bytes] = []
        client.meta.events.register(
            "before-parse.ec2.DescribeInstanceTypes",
            lambda response_dict, **_: responses.append(response_dict["body"]),
        )
        client.describe_instance_types()
        model = client.meta.service_model.operation_model("DescribeInstanceTypes")
        self._shape = model.output_shape
        self._pages = as_pages(responses[0])
        client.close()

    def read(self) -> list[Ec2InstanceType]:
        """Read all pages, as a refresh does."""
        parser = create_parser("ec2")
        return [
            decode_instance_type(entry)
            for page in self._pages
            for entry in parser.parse({"body": page, "headers": {}, "status_code": 200}, self._shape)[
                "InstanceTypes"
            ]
        ]


def as_pages(response: bytes, size: int = 100) -> list[bytes]:
    """Split moto's single response into pages."""
    root = ElementTree.fromstring(response)  # noqa: S314 - from our own server
    (items,) = [entry for entry in root if entry.tag.endswith("instanceTypeSet")]
    everything = list(items)
    pages = []
    for start in range(0, len(everything), size):
        items[:] = everything[start : start + size]
        pages.append(ElementTree.tostring(root))
    return pages
