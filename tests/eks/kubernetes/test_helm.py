"""Prerequisites of Helm charts."""

from dovetail.eks.kubernetes.helm import missing_prerequisites


def test_only_missing_chart_directories_are_reported() -> None:
    problems = missing_prerequisites(["metrics-server", "oci://registry.example.com/x", "./not/there"])

    assert [problem for problem in problems if "chart" in problem and "PATH" not in problem] == [
        "there is no chart at ./not/there: set its location in controller.chart"
    ]
