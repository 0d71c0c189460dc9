"""Pods whose promised place others have taken: kube-scheduler binds as it likes."""

from tests.support.catalog import a_type
from tests.support.shop import Shop


def test_a_pod_whose_place_another_took_is_bought_for_within_seconds() -> None:
    shop = Shop([a_type("only", cpu=4)]).open()
    shop.pod_waits("planned", requests={"cpu": "3"})
    shop.wait(2)
    node = shop.bring_up(shop.bought()[0])
    shop.pod_waits("stranger", requests={"cpu": "3"}, seen=False)

    shop.bind("stranger", node)
    shop.wait(2)

    assert len(shop.bought_for("planned")) == 2


def test_a_pod_that_still_fits_keeps_its_place() -> None:
    shop = Shop([a_type("only", cpu=4)]).open()
    shop.pod_waits("planned", requests={"cpu": "1"})
    shop.wait(2)
    node = shop.bring_up(shop.bought()[0])
    shop.pod_waits("stranger", requests={"cpu": "2"}, seen=False)

    shop.bind("stranger", node)
    shop.wait(2)

    assert len(shop.bought_for("planned")) == 1


def test_one_that_finds_another_place_within_the_window_is_not_bought_for() -> None:
    shop = Shop([a_type("only", cpu=4)]).open()
    shop.pod_waits("one", requests={"cpu": "3"})
    shop.pod_waits("other", requests={"cpu": "3"})
    shop.wait(2)
    first, second = (shop.bring_up(claim) for claim in shop.bought())

    # Each takes the place that was meant for the other.
    shop.bind("one", first if shop.bought_for("one") != [shop.bought()[0]] else second)
    shop.bind("other", second if shop.bought_for("one") != [shop.bought()[0]] else first)
    shop.wait(5)

    assert len(shop.bought()) == 2
