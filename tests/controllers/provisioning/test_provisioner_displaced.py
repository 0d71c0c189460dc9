"""Displaced pods: kube-scheduler binds other pods to the node of an assignment."""

from tests.support.controllers.provisioning import ProvisioningEnvironment
from tests.support.scheduling.instance_types import a_type


def test_displaced_pod_gets_another_nodeclaim_within_seconds() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("planned", requests={"cpu": "3"})
    env.wait(2)
    node = env.make_ready(env.live_claims()[0])
    env.add_pending_pod("other", requests={"cpu": "3"}, seen=False)

    env.bind("other", node)
    env.wait(2)

    assert len(env.claims_for("planned")) == 2


def test_assigned_pod_that_still_fits_is_not_displaced() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("planned", requests={"cpu": "1"})
    env.wait(2)
    node = env.make_ready(env.live_claims()[0])
    env.add_pending_pod("other", requests={"cpu": "2"}, seen=False)

    env.bind("other", node)
    env.wait(2)

    assert len(env.claims_for("planned")) == 1


def test_displaced_pod_that_is_bound_within_the_batch_window_gets_no_nodeclaim() -> None:
    env = ProvisioningEnvironment([a_type("only", cpu=4)]).start()
    env.add_pending_pod("one", requests={"cpu": "3"})
    env.add_pending_pod("other", requests={"cpu": "3"})
    env.wait(2)
    first, second = (env.make_ready(claim) for claim in env.live_claims())

    # Each pod is bound to the node that was launched for the other.
    env.bind("one", first if env.claims_for("one") != [env.live_claims()[0]] else second)
    env.bind("other", second if env.claims_for("one") != [env.live_claims()[0]] else first)
    env.wait(5)

    assert len(env.live_claims()) == 2
