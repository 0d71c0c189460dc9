"""CSV task traces: rows of public traces, and everything that can be wrong with them."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.trace.model import Tasks, Template
from dovetail.trace.reader import load_trace

# Rows of openb_pod_list_gpuspec33.csv of Alibaba's cluster-trace-gpu-v2023.
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0017,88000,327680,8,1000,G2,Burstable,Succeeded,9437497,10769854,9437497
openb-pod-0005,20000,65536,0,0,,LS,Running,2759674,12902960,2759676
openb-pod-0061,11908,47104,1,1000,,BE,Pending,10001278,10001403,
openb-pod-0033,3152,5600,1,1000,V100M16|V100M32,BE,Failed,9965463,9965645,9965463
"""
# The example rows in the description of cluster-trace-gpu-v2020, with two instances instead of one, and
# of the spot GPU trace of 2026.
PAI = "4f057009a5d481acec67b088,tensorflow,2.0,Terminated,1739162.0,1739200.0,600.0,29.296875,50.0,MISC\n"
SPOT_GPU = """\
job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
437260,57,A100-SXM4-80GB,15,1,16,9589663,41060,Spot
"""


def run(path: Path, text: str, *options: str) -> Result:
    (path / "in.csv").write_text(text)
    arguments = ["trace", "import", "csv", str(path / "in.csv"), "-o", str(path / "t.zst"), *options]
    return CliRunner().invoke(cli, arguments)


def tasks_of(path: Path) -> list[tuple[float, int, float | None, dict[str, str]]]:
    """Return time, count, run time and requests of all tasks."""
    trace = load_trace(path / "t.zst")
    requests = {
        event.id: event.template["spec"]["containers"][0]["resources"]["requests"]
        for event in trace.events
        if isinstance(event, Template)
    }
    return [
        (event.t, event.count, event.seconds, requests[event.template])
        for event in trace.events
        if isinstance(event, Tasks)
    ]


def test_a_byte_order_mark_is_not_part_of_the_first_column(tmp_path: Path) -> None:
    columns = ("--column", "start=begin", "--column", "duration=runtime", "--column", "cpu=cores")

    result = run(tmp_path, "\ufeffbegin,runtime,cores\n5,60,2\n", *columns)

    assert result.exit_code == 0, result.output
    assert tasks_of(tmp_path) == [(0, 1, 60, {"cpu": "2000m"})]


def test_rows_of_alibabas_gpu_trace_of_2023_are_sorted_and_rounded_up(tmp_path: Path) -> None:
    result = run(tmp_path, OPENB, "--preset", "alibaba-gpu-2023")

    assert result.exit_code == 0, result.output
    assert tasks_of(tmp_path) == [
        (0, 1, 12902960 - 2759674, {"cpu": "20000m", "memory": "65536Mi"}),
        (6677823, 1, 10769854 - 9437497, {"cpu": "88000m", "memory": "327680Mi", "nvidia.com/gpu": "8"}),
        (7205789, 1, 182, {"cpu": "3160m", "memory": "5600Mi", "nvidia.com/gpu": "1"}),
    ]
    assert "left out 1 row: pod_phase is Pending" in result.output


def test_rows_of_the_other_presets_have_their_units(tmp_path: Path) -> None:
    of_2020 = run(tmp_path, PAI, "--preset", "alibaba-gpu-2020")
    pai = tasks_of(tmp_path)
    of_2026 = run(tmp_path, SPOT_GPU, "--preset", "alibaba-spot-gpu-2026")
    spot = tasks_of(tmp_path)

    assert (of_2020.exit_code, of_2026.exit_code) == (0, 0)
    assert pai == [(0, 2, 38, {"cpu": "6000m", "memory": "27952Mi", "nvidia.com/gpu": "1"})]
    assert spot == [(0, 16, 41060, {"cpu": "15000m", "nvidia.com/gpu": "1"})]


def test_columns_can_be_named_or_counted_with_their_units(tmp_path: Path) -> None:
    columns = ["start=1:m", "duration=2:h", "cpu=3:milli", "memory=4:GiB"]
    options = [part for column in columns for part in ("--column", column)]

    result = run(tmp_path, "10,1,250,2\n5,2,250,2\n", "--no-header", *options)

    assert result.exit_code == 0, result.output
    requests = {"cpu": "250m", "memory": "2048Mi"}
    assert tasks_of(tmp_path) == [(0, 1, 7200, requests), (300, 1, 3600, requests)]


def test_only_the_first_hours_are_imported_if_asked_for(tmp_path: Path) -> None:
    text = "start,duration,cpu\n0,100000,1\n7200,60,1\n"
    columns = [part for field in ("start", "duration", "cpu") for part in ("--column", f"{field}={field}")]

    result = run(tmp_path, text, *columns, "--for", "1h")

    assert result.exit_code == 0, result.output
    assert [task[0] for task in tasks_of(tmp_path)] == [0]
    assert load_trace(tmp_path / "t.zst").seconds == 3600


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", (), "in.csv is empty"),
        ("a,b\n1,2\n", (), "in.csv:1 there is no column 'creation_time' for start; there are a, b"),
        (OPENB + "openb-pod-1,1,1\n", (), "in.csv:6 the row has 3 columns, not 11; is the file truncated?"),
        (
            OPENB.replace("9965645", "9965"),
            (),
            "in.csv:5 deletion_time: the task ends before it starts; are the units right?",
        ),
        (OPENB.replace("9965463,", "yesterday,"), (), "in.csv:5 creation_time: 'yesterday' is not a number"),
        (
            OPENB,
            ("--column", "cpu=cpu_milli:GB"),
            "'GB' is not a unit of cpu; there are cores, milli, percent",
        ),
        (OPENB, ("--column", "disk=x"), "'disk' is not one of start, end, duration, cpu, memory"),
        (OPENB, ("--column", "cpu=vcpus"), "in.csv:1 there is no column 'vcpus' for cpu"),
    ],
)
def test_bad_input_is_reported_with_its_line(
    tmp_path: Path, text: str, options: tuple[str, ...], message: str
) -> None:
    result = run(tmp_path, text, "--preset", "alibaba-gpu-2023", *options)

    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "t.zst").exists()


def test_a_summary_says_what_a_trace_has(tmp_path: Path) -> None:
    run(tmp_path, OPENB, "--preset", "alibaba-gpu-2023")

    result = CliRunner().invoke(cli, ["trace", "show", str(tmp_path / "t.zst")])

    assert result.exit_code == 0, result.output
    assert "tasks            3" in result.output
    assert "note: parts of a GPU are rounded up" in result.output
