"""CustomResourceDefinition of NodeOverlays."""

from typing import Final

from dovetail.codec.crds import schema
from dovetail.codec.crds.definition import AGE, READY, Column, Definition
from dovetail.codec.crds.labels import requirements_schema
from dovetail.codec.crds.schema import Schema
from dovetail.codec.crds.shared import status_schema
from dovetail.codec.karpenter.nodeoverlays import (
    MAX_CAPACITY_ENTRIES,
    MAX_WEIGHT,
    PER_INSTANCE_LABELS,
    PRICE,
    PRICE_ADJUSTMENT,
    STANDARD_RESOURCES,
)


def _spec() -> Schema:
    fields = {
        "requirements": requirements_schema(
            "Instance types and offerings that the overlay applies to.",
            nodepool=True,
            min_values=False,
            aws_but=PER_INSTANCE_LABELS,
        ),
        "price": schema.string(
            "Price in USD per hour; replaces the price of AWS.",
            schema.full_match(PRICE, "must be a number such as 0.25"),
        ),
        "priceAdjustment": schema.string(
            "Change of the price of AWS, in USD per hour or in percent.",
            schema.full_match(
                PRICE_ADJUSTMENT,
                "must be a signed amount such as -0.05 or a signed percentage such as +10%, at least -100%",
            ),
        ),
        "capacity": schema.quantities(
            "Extended resources added to the instance types.",
            schema.rule(
                f"self.all(name, !(name in {schema.cel_list(STANDARD_RESOURCES)}))",
                f"can add extended resources only, not {', '.join(STANDARD_RESOURCES)}",
            ),
            most=MAX_CAPACITY_ENTRIES,
        ),
        "weight": schema.integer(
            "If overlays conflict, the one with the highest weight applies; the default is 0.",
            low=1,
            high=MAX_WEIGHT,
        ),
    }
    return schema.struct(
        "Prices and extended resources of instance types.",
        fields,
        schema.rule(
            "!has(self.price) || !has(self.priceAdjustment)", "price and priceAdjustment exclude each other"
        ),
        required=("requirements",),
    )


NODE_OVERLAY: Final = Definition(
    group="karpenter.sh",
    version="v1alpha1",
    kind="NodeOverlay",
    plural="nodeoverlays",
    about="User-defined prices and extended resources of instance types.",
    spec=_spec(),
    status=status_schema("Whether the overlay is applied.", {}),
    columns=(READY, AGE, Column("Weight", ".spec.weight", "integer", wide=True)),
    short_names=("overlays",),
)
