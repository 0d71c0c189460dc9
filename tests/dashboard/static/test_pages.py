"""The dashboard's page in Chromium."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from dovetail.view.document import NodeState
from tests.dashboard.static.conftest import Dashboard, Watched
from tests.dashboard.static.documents import PAYLOAD, hostile_view, rich_node, rich_view

pytestmark = pytest.mark.browser
Serve = Callable[[Any], Dashboard]

ROUTES = [
    "#/cluster",
    "#/cluster?group=zone&sort=price",
    "#/timeline?decision=c1",
    "#/decisions?open=c1",
    "#/node/10",
    "#/node/20",
    "#/pod/shop/big",
    "#/pod/shop/web-10-0",
    "#/savings",
    "#/nowhere",
]


def publish_history(dashboard: Dashboard) -> None:
    for second in range(1, 40, 3):
        dashboard.publish(rich_view(second))


@pytest.mark.parametrize("scheme", ["light", "dark"], indirect=True)
@pytest.mark.parametrize("route", ROUTES)
def test_axe_finds_no_serious_violation(serve: Serve, watched: Watched, route: str) -> None:
    dashboard = serve(rich_view())
    page = watched.open(dashboard, route)
    publish_history(dashboard)
    page.wait_for_timeout(900)  # Cards fade in; a half transparent text has too little contrast.

    violations = Axe().run(page).response["violations"]

    serious = [
        (violation["id"], [node["html"][:200] for node in violation["nodes"]])
        for violation in violations
        if violation["impact"] in ("serious", "critical")
    ]
    assert serious == []


@pytest.mark.parametrize("width", [360, 768])
@pytest.mark.parametrize("route", ROUTES)
def test_no_page_scrolls_sideways_on_a_phone(serve: Serve, watched: Watched, route: str, width: int) -> None:
    dashboard = serve(rich_view())
    page = watched.open(dashboard)
    page.set_viewport_size({"width": width, "height": 740})
    page.evaluate("route => { location.hash = route; }", route)
    publish_history(dashboard)
    page.wait_for_timeout(300)

    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_decisions_on_a_phone_show_reason_and_saving_without_scrolling(
    serve: Serve, watched: Watched
) -> None:
    page = watched.open(serve(rich_view()), "#/decisions")
    page.set_viewport_size({"width": 360, "height": 740})

    row = page.get_by_role("row").filter(has=page.get_by_role("button")).first
    cells = row.get_by_role("cell").all()
    boxes = [box for cell in cells if cell.is_visible() and (box := cell.bounding_box()) is not None]
    assert len(boxes) == 4
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 360 for box in boxes)
    expect(page.locator(".scroll")).to_have_js_property(
        "scrollWidth", page.locator(".scroll").evaluate("e => e.clientWidth")
    )


def test_a_cluster_without_any_price_has_no_bill_of_zero(serve: Serve, watched: Watched) -> None:
    view = rich_view()
    nodes = {key: msgspec.structs.replace(node, price_per_hour=None) for key, node in view.nodes.items()}
    totals = msgspec.structs.replace(
        view.totals, nodes=len(nodes), unpriced_nodes=len(nodes), price_per_hour=0.0, price_per_month=0.0
    )
    page = watched.open(serve(msgspec.structs.replace(view, nodes=nodes, totals=totals)), "#/cluster")

    expect(page.locator("dl.figures .figure").first).to_contain_text("no price is known")
    expect(page.locator("h3.group").first).to_contain_text("no price")


def test_the_one_reason_of_a_pending_pod_is_shown_once(serve: Serve, watched: Watched) -> None:
    view = rich_view()
    pod = msgspec.structs.replace(
        view.pending_pods["shop/big"], messages=("too large",), nearest_fit="too large"
    )
    view = msgspec.structs.replace(view, pending_pods={"shop/big": pod})
    page = watched.open(serve(view), "#/cluster")

    expect(page.get_by_text("too large")).to_have_count(1)


def test_names_that_are_markup_are_shown_as_text_on_every_page(serve: Serve, watched: Watched) -> None:
    dashboard = serve(hostile_view())
    page = watched.open(dashboard)
    name = quote(PAYLOAD, safe="")

    for route in (
        "#/cluster",
        "#/cluster?group=zone",
        "#/cluster?group=type",
        f"#/cluster?q={name}&workload={name}",
        "#/timeline",
        f"#/decisions?open={name}&kind=all",
        f"#/node/{name}",
        f"#/pod/{name}/{name}",
        "#/savings",
        f"#/{name}",
    ):
        page.evaluate("route => { location.hash = route; }", route)
        page.wait_for_timeout(150)
        assert page.evaluate("window.pwned") is None
        assert page.locator("main img, main script, header img, #banner img, #banner script").count() == 0
        if "q=" not in route and name not in route.split("/")[1]:
            assert "window.pwned=1" in page.locator("body").inner_text()


def test_inline_code_is_blocked_even_if_it_got_into_the_page(serve: Serve, watched: Watched) -> None:
    page = watched.open(serve(rich_view()))

    blocked = page.evaluate(
        """() => {
          try { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.pwned=1'>"); }
          catch (error) { return error.name; }
        }"""
    )

    assert blocked == "TypeError"  # Trusted types: no string becomes markup.
    assert page.evaluate("window.pwned") is None
    assert "TrustedHTML" in watched.problems.pop()


def test_token_leaves_the_address_bar_and_survives_a_reload(serve: Serve, watched: Watched) -> None:
    page = watched.open(serve(rich_view()), "#/savings")

    assert "token" not in page.url
    page.reload()
    expect(page.locator("h1")).to_have_text("Savings")


def test_a_second_tab_gets_the_token_from_the_first(serve: Serve, watched: Watched) -> None:
    dashboard = serve(rich_view())
    watched.open(dashboard)

    second = watched.context.new_page()
    second.goto(f"{dashboard.url}#/decisions")

    expect(second.locator("h1")).to_contain_text("Decisions")


def test_a_wrong_token_shows_no_data_and_asks_for_the_right_one(serve: Serve, watched: Watched) -> None:
    page = watched.open(serve(rich_view()), token="wrong-token-of-some-length")  # noqa: S106

    expect(page.locator("h1")).to_have_text("Token needed")
    assert page.locator(".card").count() == 0
    page.fill("#token", "a-token-of-enough-length")
    page.click("text=Open")
    expect(page.locator(".card").first).to_be_visible()
    assert all("401" in problem for problem in watched.problems)
    watched.problems.clear()


def test_a_pending_pod_shows_why_it_waits_and_what_would_change_that(serve: Serve, watched: Watched) -> None:
    page = watched.open(serve(rich_view()))

    row = page.locator(".pending li")
    expect(row).to_contain_text("Cannot be scheduled: NodePool default: no instance type has 64 CPUs")
    row.locator("a").click()

    expect(page.locator("h1")).to_have_text("big")
    expect(page.locator(".answer")).to_contain_text("m6g.16xlarge would fit without the limit of 8 CPUs")


def test_a_decision_is_on_the_timeline_with_its_saving(serve: Serve, watched: Watched) -> None:
    dashboard = serve(rich_view())
    page = watched.open(dashboard, "#/timeline")
    publish_history(dashboard)

    mark = page.locator(".mark.kind-consolidated")
    expect(mark).to_have_attribute(
        "aria-label", "Consolidated 2 nodes (Underutilized), 1 launched instead, saves $0.2000/h"
    )
    mark.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".selected-mark")).to_contain_text("saves $0.2000/h")
    page.click("text=Details")
    expect(page.locator("tr.details")).to_contain_text("$0.2134/h expected, $0.2000/h real")


def test_timeline_zooms_by_dragging_by_keys_and_back(serve: Serve, watched: Watched) -> None:
    dashboard = serve(rich_view())
    page = watched.open(dashboard, "#/timeline")
    publish_history(dashboard)
    box = page.locator(".chart-box").bounding_box()
    assert box is not None

    page.mouse.move(box["x"] + 300, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 700, box["y"] + 200, steps=5)
    page.mouse.up()
    page.wait_for_function("location.hash.includes('from=')")
    zoomed = page.url
    page.locator(".chart-box").focus()
    page.keyboard.press("-")
    page.wait_for_function("url => location.href !== url", arg=zoomed)
    page.keyboard.press("Escape")
    page.wait_for_function("!location.hash.includes('from=')")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".chart .cursor")).to_have_count(1)
    expect(page.locator(".readout")).not_to_contain_text("Now")


def test_decisions_are_filtered_by_kind_and_text_and_the_url_keeps_it(serve: Serve, watched: Watched) -> None:
    page = watched.open(serve(rich_view()), "#/decisions")

    expect(page.locator(".choices a")).to_have_text(
        ["Carried out2", "Launched1", "Consolidated1", "Refused1", "All3"]
    )
    expect(page.locator("tbody tr")).to_have_count(2)  # The refused one is not among those carried out.
    page.click(".choices >> text=Refused")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.click(".choices >> text=All")
    page.fill("input[type=search]", "underutilized")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert page.input_value("input[type=search]") == "underutilized"


def test_text_typed_before_a_choice_is_drawn_keeps_the_choice(serve: Serve, watched: Watched) -> None:
    page = watched.open(serve(rich_view()), "#/decisions?kind=refused")
    expect(page.locator("tbody tr")).to_have_count(1)

    page.evaluate(
        """() => {
            location.hash = "#/decisions?kind=all";
            const input = document.querySelector("input[type=search]");
            input.value = "underutilized";
            input.dispatchEvent(new Event("input"));
        }"""
    )

    expect(page.locator("tbody tr")).to_have_count(1)
    assert "kind=all" in page.url


def test_cluster_groups_sorts_and_filters_by_url(serve: Serve, watched: Watched) -> None:
    page = watched.open(serve(rich_view()))

    page.select_option("select >> nth=0", "zone")
    expect(page.locator(".group")).to_have_count(3)
    assert "group=zone" in page.url
    page.fill("input[type=search]", "us-east-1b")
    expect(page.locator(".card")).to_have_count(2)
    page.reload()
    expect(page.locator(".card")).to_have_count(2)
    page.fill("input[type=search]", "no such node")
    expect(page.locator(".empty")).to_have_text("No node matches the filter.")


def test_a_node_says_why_it_stays_what_blocks_it_and_what_would_change_that(
    serve: Serve, watched: Watched
) -> None:
    page = watched.open(serve(rich_view()))

    page.locator(".card a").first.focus()
    page.keyboard.press("Enter")

    answer = page.locator(".answer")
    page.go_back()
    page.locator("[data-node='10']").click()
    expect(answer).to_contain_text("Pdb shop/web prevents pod evictions")
    expect(answer).to_contain_text("Blocked by PodDisruptionBudget shop/web")
    expect(answer).to_contain_text("relax the PodDisruptionBudget")
    page.locator("table.pods a").first.click()
    expect(page.locator("h1")).to_have_text("web-10-0")


def test_savings_rank_blockers_by_dollars(serve: Serve, watched: Watched) -> None:
    view = rich_view()
    blocker = view.blockers["pdb"]
    more = {
        "small": type(blocker)(
            key="small", kind="Pod", name="shop/a", saving_per_hour=0.01, price_per_hour=9
        ),
        "pdb": blocker,
        "large": type(blocker)(key="large", kind="Pod", name="shop/b", saving_per_hour=0.5, price_per_hour=1),
    }
    page = watched.open(serve(rich_view(blockers=more)), "#/savings")

    expect(page.locator(".blockers .what")).to_have_text(
        ["Pod shop/b", "PodDisruptionBudget shop/web", "Pod shop/a"]
    )


def test_server_restart_is_survived_without_a_reload(serve: Serve, watched: Watched) -> None:
    first = serve(rich_view(0, nodes=(rich_node("10"),)))
    page = watched.open(first)
    page.evaluate("window.stays = true")
    expect(page.locator(".card")).to_have_count(1)

    first.stop()
    expect(page.locator("#banner .stale")).to_contain_text("Stale: no connection to the server since")
    expect(page.locator(".connection")).to_contain_text("Stale")
    expect(page.locator(".card")).to_have_count(1)

    first.source = type(first.source)(rich_view(60, nodes=(rich_node("10"), rich_node("11"))))
    first.start()
    expect(page.locator(".card")).to_have_count(2)
    expect(page.locator(".connection")).to_have_text("Live")
    expect(page.locator("#banner .stale")).to_have_count(0)
    assert page.evaluate("window.stays") is True
    assert all("ERR_" in problem for problem in watched.problems)  # Chromium logs failed requests itself.
    watched.problems.clear()


def test_page_is_stale_while_the_server_has_no_cluster_and_live_again_afterwards(
    serve: Serve, watched: Watched
) -> None:
    dashboard = serve(rich_view(0, nodes=(rich_node("10"),)))
    page = watched.open(dashboard)

    dashboard.publish(rich_view(1, nodes=(rich_node("10"),)), stale=True, reason="10.0.0.1 does not answer")
    expect(page.locator("#banner .stale")).to_contain_text("no connection to the cluster: 10.0.0.1 does not")
    expect(page.locator(".connection")).to_have_text("Stale")
    expect(page.locator(".card")).to_have_count(1)

    dashboard.publish(rich_view(2, nodes=(rich_node("10"), rich_node("11"))))
    expect(page.locator("#banner .stale")).to_have_count(0)
    expect(page.locator(".connection")).to_have_text("Live")
    expect(page.locator(".card")).to_have_count(2)


def test_typing_into_the_filter_is_not_disturbed_by_updates(serve: Serve, watched: Watched) -> None:
    dashboard = serve(rich_view())
    page = watched.open(dashboard)
    page.locator("input[type=search]").focus()

    for number, letter in enumerate("us-east-1c"):
        page.keyboard.press(letter)
        dashboard.publish(rich_view(number + 1))

    assert page.input_value("input[type=search]") == "us-east-1c"
    expect(page.locator(".card")).to_have_count(2)


def test_thousands_of_nodes_are_a_few_elements_and_scrolling_shows_all(
    serve: Serve, watched: Watched
) -> None:
    page = watched.open(serve(rich_view(nodes=tuple(rich_node(f"{i:04}") for i in range(1500)))))
    expect(page.locator(".card").first).to_be_visible()

    assert page.evaluate("document.querySelectorAll('*').length") < 4000
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.locator("[data-node='1499']")).to_be_visible()
    expect(page.locator("[data-node='0000']")).to_have_count(0)


def test_states_of_nodes_are_words_not_colours_only(serve: Serve, watched: Watched) -> None:
    page = watched.open(serve(rich_view()))

    words = set(page.locator(".card .chip").all_inner_texts())
    assert words == {"Launching", "Joining", "Draining", "Not ready"}
    label = page.locator("[data-node='22']").get_attribute("aria-label")
    assert label == "ip-10-0-0-22.ec2.internal, Draining, m6g.large, 7 pods, $0.0770 per hour"


def test_a_change_reaches_the_card_without_replacing_it(serve: Serve, watched: Watched) -> None:
    dashboard = serve(rich_view(nodes=(rich_node("10"), rich_node("11"))))
    page: Page = watched.open(dashboard)
    page.evaluate("document.querySelector('[data-node=\"10\"]').parentElement.kept = true")

    dashboard.publish(rich_view(1, nodes=(rich_node("10", state=NodeState.DRAINING), rich_node("11"))))

    expect(page.locator(".card.state-draining")).to_have_count(1)
    assert page.evaluate("document.querySelector('.card.state-draining').kept") is True
