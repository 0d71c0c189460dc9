"""EC2's whole catalogue, in pages as EC2 would send them."""

from xml.etree import ElementTree

import boto3
from botocore.parsers import create_parser

from dovetail.aws.instancetype.descriptions import machine_of
from dovetail.model.cloud.ec2_catalog import Machine


class Pages:
    """What moto tells of all instance types, ready to be read."""

    def __init__(self, url: str) -> None:
        client = boto3.client("ec2", region_name="us-east-1", endpoint_url=url)
        answers: list[bytes] = []
        client.meta.events.register(
            "before-parse.ec2.DescribeInstanceTypes",
            lambda response_dict, **_: answers.append(response_dict["body"]),
        )
        client.describe_instance_types()
        model = client.meta.service_model.operation_model("DescribeInstanceTypes")
        self._shape = model.output_shape
        self._pages = as_pages(answers[0])
        client.close()

    def read(self) -> list[Machine]:
        """Read all of it, as a refresh does."""
        parser = create_parser("ec2")
        return [
            machine_of(one)
            for page in self._pages
            for one in parser.parse({"body": page, "headers": {}, "status_code": 200}, self._shape)[
                "InstanceTypes"
            ]
        ]


def as_pages(answer: bytes, size: int = 100) -> list[bytes]:
    """Cut moto's one large answer into pages as EC2 would send them."""
    root = ElementTree.fromstring(answer)  # noqa: S314 - from our own server
    (items,) = [one for one in root if one.tag.endswith("instanceTypeSet")]
    everything = list(items)
    pages = []
    for start in range(0, len(everything), size):
        items[:] = everything[start : start + size]
        pages.append(ElementTree.tostring(root))
    return pages
