"""The definition of NodeOverlays."""

from typing import Final

from dovetail.codec.crds.definition import AGE, READY, Column, Definition
from dovetail.codec.crds.labels import requirements
from dovetail.codec.crds.schema import (
    Schema,
    amounts,
    listed,
    matching,
    record,
    rule,
    text,
    whole,
)
from dovetail.codec.crds.shared import status
from dovetail.codec.karpenter.nodeoverlays import (
    ADJUSTMENT,
    HEAVIEST,
    NOT_EXTENDED,
    NOT_PER_TYPE,
    PRICE,
)

_MOST_RESOURCES: Final = 100


def _spec() -> Schema:
    fields = {
        "requirements": requirements(
            "The instance types and offerings that this is about.",
            nodepool=True,
            min_values=False,
            aws_but=NOT_PER_TYPE,
        ),
        "price": text(
            "What an hour costs, instead of what AWS says.",
            matching(PRICE, "must be a number such as 0.25"),
        ),
        "priceAdjustment": text(
            "How much more or less an hour costs than AWS says.",
            matching(
                ADJUSTMENT,
                "must be a signed amount such as -0.05 or a signed share from -100% such as +10%",
            ),
        ),
        "capacity": amounts(
            "Extended resources that machines have besides.",
            rule(
                f"self.all(name, !(name in {listed(NOT_EXTENDED)}))",
                f"can add extended resources only, not {', '.join(NOT_EXTENDED)}",
            ),
            most=_MOST_RESOURCES,
        ),
        "weight": whole(
            "Where several overlays say different things the heaviest counts; one without has 0.",
            low=1,
            high=HEAVIEST,
        ),
    }
    return record(
        "What is different from what the cloud says.",
        fields,
        rule(
            "!has(self.price) || !has(self.priceAdjustment)",
            "price and priceAdjustment exclude each other",
        ),
        required=("requirements",),
    )


NODE_OVERLAY: Final = Definition(
    group="karpenter.sh",
    version="v1alpha1",
    kind="NodeOverlay",
    plural="nodeoverlays",
    about="Prices and extended resources of instance types, where the cloud does not know better.",
    spec=_spec(),
    status=status("Whether the overlay counts.", {}),
    columns=(READY, AGE, Column("Weight", ".spec.weight", "integer", wide=True)),
    short_names=("overlays",),
)
