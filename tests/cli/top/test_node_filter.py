"""Order and filter of the node list."""

import pytest

from dovetail.cli.top.node_filter import SORTS, FilterError, parse_filter, sort_nodes
from tests.cli.top.views import many_nodes, small_view


def matching(text: str) -> list[str]:
    parsed = parse_filter(text)
    return [key for key, node in small_view().nodes.items() if parsed.matches(node)]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", ["ip-10-0-0-1", "ip-10-0-0-2", "ip-10-0-0-3"]),
        ("pool=web", ["ip-10-0-0-2"]),
        ("pool!=web", ["ip-10-0-0-1", "ip-10-0-0-3"]),
        ("zone=us-east-1b,us-east-1c", ["ip-10-0-0-1"]),
        ("type=2XLARGE", ["ip-10-0-0-1"]),
        ("capacity=spot cpu>90", ["ip-10-0-0-2"]),
        ("cpu<30%", ["ip-10-0-0-1"]),
        ("price>$0.1", ["ip-10-0-0-1"]),
        ("state=draining", ["ip-10-0-0-3"]),
        ("why=annotation", ["ip-10-0-0-1"]),
        ("pod=db-0", ["ip-10-0-0-1"]),
        ("workload=default/web", ["ip-10-0-0-1"]),
        ("spot", ["ip-10-0-0-2"]),
        ("spot draining", []),
    ],
)
def test_a_filter_selects_nodes_for_which_every_term_holds(text: str, keys: list[str]) -> None:
    assert matching(text) == keys


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zoen=a", "'zoen' is not a field; did you mean 'zone'?"),
        ("cpu<much", "'much' is not a number; write, for example, cpu<30"),
        ("cpu=30", "cpu takes < or >: cpu>30."),
        ("colour>3", "known are cpu, memory, price, pods"),
    ],
)
def test_a_filter_that_cannot_be_parsed_says_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(FilterError) as error:
        parse_filter(text)

    assert message in str(error.value)


@pytest.mark.parametrize("key", list(SORTS))
def test_every_order_has_all_nodes_and_breaks_ties_by_name(key: str) -> None:
    nodes = many_nodes(60, pods=1).nodes.values()

    ordered = sort_nodes(nodes, key)

    assert sorted(node.key for node in ordered) == sorted(node.key for node in nodes)
    values = [(SORTS[key](node), node.name) for node in ordered]
    assert values == sorted(values)
