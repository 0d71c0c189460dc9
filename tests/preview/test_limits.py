"""Limits of --fail-on: how they are written, and when a preview breaks them."""

from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.preview.limits import InvalidLimitError, check_limits, parse_limit
from dovetail.preview.report import PodWithoutNode, Preview, WorkloadDisruption
from tests.preview.previews import a_preview, a_state


def broken(preview: Preview, *limits: str) -> list[str]:
    return [entry.limit for entry in check_limits(preview, [parse_limit(limit) for limit in limits])]


def message(preview: Preview, limit: str) -> str:
    (entry,) = check_limits(preview, [parse_limit(limit)])
    return entry.message


def costs(without: float, after: float) -> Preview:
    return a_preview(without=a_state(price=without), after=a_state(price=after))


def a_workload(**more: Any) -> WorkloadDisruption:
    return WorkloadDisruption(
        **{
            "workload": "shop/web",
            "kind": "Deployment",
            "replicas": 10,
            "least_available": 7,
            "evictions": 4,
            "evictions_without": 0,
            "killed": 0,
            "pending_seconds": 0.0,
            **more,
        }
    )


# Cost.


def test_a_rise_in_cost_is_compared_with_the_cluster_without_the_change() -> None:
    preview = costs(without=10.0, after=10.6)

    assert broken(preview, "cost>+5%", "cost>+6%", "cost>+0.5", "cost>10.5", "cost>10.7") == [
        "cost>+5%",
        "cost>+0.5",
        "cost>10.5",
    ]
    assert message(preview, "cost>+5%") == (
        "the cost changes by +6.0 %, to $10.6000 per hour: 1.0 points more than +5 %"
    )


def test_a_saving_can_be_demanded_by_a_negative_percentage() -> None:
    assert broken(costs(without=10.0, after=9.6), "cost>-5%") == ["cost>-5%"]
    assert broken(costs(without=10.0, after=9.4), "cost>-5%") == []


def test_any_cost_breaks_a_percentage_if_there_was_none_before() -> None:
    assert broken(costs(without=0.0, after=0.1), "cost>+500%") == ["cost>+500%"]
    assert broken(costs(without=0.0, after=0.0), "cost>+5%") == []


# Evictions, time and nodes.


def test_evictions_are_counted_in_all_or_beyond_those_without_the_change() -> None:
    preview = a_preview(evictions=12, evictions_without=5)

    assert broken(preview, "evictions>11", "evictions>12", "evictions>+6", "evictions>+7") == [
        "evictions>11",
        "evictions>+6",
    ]
    assert message(preview, "evictions>10") == "12 evictions, 2 over the limit of 10"


def test_duration_is_the_time_until_the_last_move() -> None:
    preview = a_preview(duration=7500.0)

    assert broken(preview, "duration>2h", "duration>2h10m") == ["duration>2h"]
    assert message(preview, "duration>2h") == "it takes 2h05m, 5m00s more than 2h00m"


def test_a_play_that_ends_before_the_cluster_is_at_rest_breaks_every_duration() -> None:
    preview = a_preview(duration=60.0, at_rest=False)

    assert broken(preview, "duration>30d") == ["duration>30d"]
    assert "still move" in message(preview, "duration>30d")


def test_nodes_are_limited_at_the_peak_and_at_the_end() -> None:
    preview = a_preview(without=a_state(nodes=10), after=a_state(nodes=14), peak_nodes=20)

    assert broken(preview, "peak-nodes>19", "peak-nodes>20", "nodes>+3", "nodes>+4", "nodes>13") == [
        "peak-nodes>19",
        "nodes>+3",
        "nodes>13",
    ]


# Pods.


def test_pods_that_find_no_node_without_the_change_either_break_no_limit() -> None:
    entry = PodWithoutNode(
        workload="shop/web", pods=3, example="shop/web-1", message="no room", also_without_change=True
    )

    assert broken(a_preview(pods_without_node=(entry,)), "unschedulable") == []
    new = replace(entry, also_without_change=False)
    assert message(a_preview(pods_without_node=(new,)), "unschedulable") == (
        "3 pods of shop/web find no node: no room"
    )


def test_availability_is_that_of_one_workload_in_percent_or_replicas() -> None:
    preview = a_preview(workloads=(a_workload(), a_workload(workload="shop/db", least_available=10)))

    limits = (
        "available(shop/web)<80%",
        "available(shop/web)<70%",
        "available(shop/web)<8",
        "available(shop/db)<100%",
    )
    assert broken(preview, *limits) == ["available(shop/web)<80%", "available(shop/web)<8"]
    assert message(preview, "available(shop/web)<80%") == (
        "7 of 10 replicas (70 %) of shop/web are available at the lowest, less than 80 %"
    )


def test_a_workload_that_does_not_exist_is_an_error_that_names_the_nearest() -> None:
    preview = a_preview(workloads=(a_workload(),))

    with pytest.raises(InvalidLimitError, match="there is no workload shop/wbe; did you mean 'shop/web'"):
        broken(preview, "available(shop/wbe)<80%")


# Mistakes.


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("evictons>200", "did you mean 'evictions>200'?"),
        ("costs>5", "did you mean 'cost>"),
        ("unscheduleable", "did you mean 'unschedulable'?"),
        ("cost>5%", "a percentage needs a sign"),
        ("cost<5", "must be written like"),
        ("cost", "must be written like"),
        ("unschedulable>3", "must be written like"),
        ("evictions>20%", "must be written like"),
        ("evictions>2.5", "must be written like"),
        ("evictions>many", "'many' is not a number"),
        ("duration>2", "is not a duration such as 90m or 2h"),
        ("available<80%", "must be written like 'available(shop/web)<80%'"),
        ("available(web)<80%", "'web' is not namespace/name"),
        ("cost(shop/web)>5", "must be written like"),
        (">5", "is not a limit; examples: cost>+5%"),
        ("", "is not a limit; examples"),
    ],
)
def test_a_misspelt_limit_is_refused_with_the_right_form(text: str, hint: str) -> None:
    with pytest.raises(InvalidLimitError) as error:
        parse_limit(text)

    assert hint in str(error.value)


def test_blanks_around_the_operator_do_not_matter() -> None:
    assert broken(a_preview(evictions=3), " evictions > 2 ") == [" evictions > 2 "]
