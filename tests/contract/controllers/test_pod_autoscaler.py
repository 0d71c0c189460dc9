"""HorizontalPodAutoscalers: replicas follow the CPU of pods. Periods differ, results do not."""

from dovetail.ports.api_resources import DEPLOYMENTS
from tests.contract.controllers.autoscaling import AutoscaledPlane


def test_load_above_the_target_adds_pods_until_each_has_its_target(autoscaled: AutoscaledPlane) -> None:
    autoscaled.create()
    autoscaled.set_load(500)
    autoscaled.wait_until("both pods are known", lambda: utilization(autoscaled) == 50)
    assert autoscaled.replicas() == 2

    autoscaled.set_load(2000)

    # 2 CPUs over pods of 500m at 50 % are 8 pods.
    autoscaled.wait_until("there are 8 replicas", lambda: autoscaled.replicas() == 8)
    # Without policies, a sync doubles them at most.
    assert autoscaled.replicas_seen == [2, 4, 8]
    autoscaled.wait_until("pods have their target", lambda: utilization(autoscaled) == 50)
    assert autoscaled.status()["currentReplicas"] == autoscaled.status()["desiredReplicas"] == 8


def utilization(autoscaled: AutoscaledPlane) -> int | None:
    metrics = autoscaled.status().get("currentMetrics") or ()
    values = [metric["resource"]["current"].get("averageUtilization") for metric in metrics]
    return values[0] if values else None


def test_less_load_removes_pods_down_to_the_minimum(autoscaled: AutoscaledPlane) -> None:
    autoscaled.create(replicas=6)

    autoscaled.set_load(100)

    autoscaled.wait_until("there are 2 replicas", lambda: autoscaled.replicas() == 2)
    limited = ("True", "TooFewReplicas")
    autoscaled.wait_until("it is limited", lambda: autoscaled.conditions()["ScalingLimited"] == limited)


def test_load_within_a_tenth_of_the_target_changes_nothing(autoscaled: AutoscaledPlane) -> None:
    autoscaled.create(replicas=4)

    # 54 % of the requests of 4 pods.
    autoscaled.set_load(1080)
    autoscaled.wait_until("the load is known", lambda: utilization(autoscaled) == 54)

    assert autoscaled.replicas() == 4
    assert autoscaled.conditions()["ScalingActive"] == ("True", "ValidMetricFound")
    assert autoscaled.conditions()["ScalingLimited"] == ("False", "DesiredWithinRange")


def test_the_maximum_limits_any_load(autoscaled: AutoscaledPlane) -> None:
    autoscaled.create(replicas=4, maxReplicas=5)

    autoscaled.set_load(8000)

    autoscaled.wait_until("there are 5 replicas", lambda: autoscaled.replicas() == 5)
    limited = ("True", "TooManyReplicas")
    autoscaled.wait_until("it is limited", lambda: autoscaled.conditions()["ScalingLimited"] == limited)


def test_the_behavior_of_an_autoscaler_limits_it(autoscaled: AutoscaledPlane) -> None:
    policies = [{"type": "Pods", "value": 1, "periodSeconds": 3}]
    autoscaled.create(behavior={"scaleUp": {"policies": policies}})

    autoscaled.set_load(1250)

    autoscaled.wait_until("there are 5 replicas", lambda: autoscaled.replicas() == 5)
    assert autoscaled.replicas_seen == [2, 3, 4, 5]


def test_default_policies_allow_four_more_pods_within_a_period(autoscaled: AutoscaledPlane) -> None:
    autoscaled.create(behavior={"scaleDown": {"selectPolicy": "Disabled"}})
    autoscaled.set_load(500)
    autoscaled.wait_until("both pods are known", lambda: utilization(autoscaled) == 50)
    assert autoscaled.replicas() == 2

    autoscaled.set_load(2000)

    autoscaled.wait_until("there are 8 replicas", lambda: autoscaled.replicas() == 8)
    assert autoscaled.replicas_seen == [2, 6, 8]


def test_the_bounds_hold_without_any_metric(autoscaled: AutoscaledPlane) -> None:
    autoscaled.create(replicas=30)

    autoscaled.wait_until("there are 10 replicas", lambda: autoscaled.replicas() == 10)

    inactive = ("False", "FailedGetResourceMetric")
    autoscaled.wait_until("it is inactive", lambda: autoscaled.conditions().get("ScalingActive") == inactive)
    assert autoscaled.replicas() == 10


def test_a_target_without_replicas_is_not_scaled(autoscaled: AutoscaledPlane) -> None:
    autoscaled.create(replicas=0)

    disabled = ("False", "ScalingDisabled")
    autoscaled.wait_until("it is disabled", lambda: autoscaled.conditions().get("ScalingActive") == disabled)

    assert autoscaled.replicas() == 0


def test_a_target_that_does_not_exist_is_reported(autoscaled: AutoscaledPlane) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
    autoscaled.create(scaleTargetRef=reference)

    failed = ("False", "FailedGetScale")
    autoscaled.wait_until("it is reported", lambda: autoscaled.conditions().get("AbleToScale") == failed)

    assert autoscaled.plane.get(DEPLOYMENTS, "web")["spec"]["replicas"] == 2
