"""The dump of examples/preview, for its guide: ``python -m tests.preview.example`` writes it again."""

import json
from pathlib import Path

from tests.preview.truth import a_shop, an_app, build_real_cluster, dump

FILE = Path(__file__).parents[2] / "examples" / "preview" / "cluster.json"


def record_example() -> str:
    """Return a dump of six nodes with three applications, one of which must not be disrupted."""
    report = an_app("report", replicas=1, cpu="500m")
    template = report["spec"]["template"]
    template["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    recorded = dump(build_real_cluster(a_shop(report)))
    # One object per line: a new dump is a readable change.
    items = (*recorded.objects, *recorded.empty_lists)
    lines = ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    return f'{{"apiVersion":"v1","kind":"List","items":[\n{lines}\n]}}\n'


if __name__ == "__main__":
    FILE.write_text(record_example())
