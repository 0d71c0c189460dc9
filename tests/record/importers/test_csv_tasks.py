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


SIMPLE = [
    part for field in ("start", "duration", "cpu", "count") for part in ("--column", f"{field}={field}")
]
"""Options for files with these columns."""


def test_a_window_begins_with_the_tasks_that_run_then_and_counts_the_others(tmp_path: Path) -> None:
    day = 86_400
    rows = [(0, 115 * day + 100), (7, 60), (115 * day + 30, 60), (118 * day, 60)]
    text = "start,duration,cpu,count\n" + "".join(f"{begin},{length},1,1\n" for begin, length in rows)

    result = run(tmp_path, text, *SIMPLE, "--from", "115d", "--for", "48h")

    assert result.exit_code == 0, result.output
    assert [(t, seconds) for t, _, seconds, _ in tasks_of(tmp_path)] == [(0, 100), (30, 60)]
    assert "note: 1 row from before the window, whose pods run from its start" in result.output
    assert "note: left out 2 rows: they are outside the window of time" in result.output


def test_a_window_without_tasks_is_an_error_that_says_where_they_are(tmp_path: Path) -> None:
    text = "start,duration,cpu,count\n0,60,1,1\n864000,60,1,1\n"

    result = run(tmp_path, text, *SIMPLE, "--from", "36d")

    assert result.exit_code == 1
    assert "no row runs in the window; the last one starts 10.0 days after the first" in result.output


def test_times_can_be_dates_and_those_without_a_zone_are_in_utc(tmp_path: Path) -> None:
    # Rows of the Helios trace of SenseTime have such times.
    text = "begin,end,cpus\n2020-04-01 00:00:13,2020-04-01 00:30:13,64\n2020-04-01T02:00:43+02:00,None,4\n"

    result = run(tmp_path, text, "--column", "start=begin", "--column", "end=end", "--column", "cpu=cpus")

    assert result.exit_code == 0, result.output
    assert tasks_of(tmp_path) == [(0, 1, 1800, {"cpu": "64000m"})]
    assert "left out 1 row: no start or no end" in result.output


def test_shares_of_the_largest_host_are_multiplied_and_the_largest_integer_is_no_end(tmp_path: Path) -> None:
    # Columns of Google's traces: microseconds, and shares of the largest host.
    never = str(2**63 - 1)
    text = f"time,end,cpus,mem\n600000000,{never},0.025,0.5\n{never},{never},1,1\n"
    columns = ("start=time:us", "end=end:us", "cpu=cpus:64", "memory=mem:4GiB")

    result = run(tmp_path, text, *(part for column in columns for part in ("--column", column)))

    assert result.exit_code == 0, result.output
    assert tasks_of(tmp_path) == [(0, 1, None, {"cpu": "1600m", "memory": "2048Mi"})]
    assert "note: 1 row without an end, whose pods run until the end of the trace" in result.output
    assert "note: left out 1 row: they never start" in result.output


def test_invalid_rows_are_left_out_and_counted_if_asked_for(tmp_path: Path) -> None:
    text = "start,duration,cpu,count\n0,60,4,1\n5,60,>24,1\n6,60\n7,60,-1,1\n"

    refused = run(tmp_path, text, *SIMPLE)
    result = run(tmp_path, text, *SIMPLE, "--skip-invalid")

    assert refused.output.count("\n") == 3
    assert result.exit_code == 0, result.output
    assert [t for t, *_ in tasks_of(tmp_path)] == [0]
    assert "left out 3 rows: invalid, the first " in result.output
    assert "in.csv:3 cpu: '>24' is not a number" in result.output


def test_rows_of_no_pod_are_left_out_and_rows_without_cpu_are_named(tmp_path: Path) -> None:
    text = "start,duration,cpu,count\n0,60,4,0\n5,60,,2\n"

    result = run(tmp_path, text, *SIMPLE)

    assert result.exit_code == 0, result.output
    assert tasks_of(tmp_path) == [(0, 2, 60, {"cpu": "0m"})]
    assert "note: left out 1 row: they are of no pod" in result.output
    assert "note: 1 row without cpu, whose pods request none" in result.output


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0,60,1e9,1", "cpu: '1e9' is more than any node has; is the unit right?"),
        ("0,60,-1,1", "cpu: '-1' is negative"),
        ("-1e300,60,1,1", "start: '-1e300' is before any trace; is the unit right?"),
        ("0,60,1,1e9", "count: '1e9' is not a number of pods up to 1,000,000"),
        ("0,60,1,-1", "count: '-1' is not a number of pods up to 1,000,000"),
        ("1e300,60,1,1", "has no row with a task that ran (1 row: they never start)"),
        ("0,60,1,1\n1e9,60,1,1", "the rows start over 11,574.1 days; are the units right?"),
    ],
)
def test_numbers_that_no_cluster_has_are_errors(tmp_path: Path, row: str, message: str) -> None:
    result = run(tmp_path, f"start,duration,cpu,count\n{row}\n", *SIMPLE)

    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "t.zst").exists()


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
        (
            OPENB.replace("9965463,", "yesterday,"),
            (),
            "in.csv:5 creation_time: 'yesterday' is neither a number nor a date",
        ),
        (
            OPENB,
            ("--column", "cpu=cpu_milli:GB"),
            "'GB' is not a unit of cpu; there are cores, milli, percent",
        ),
        (
            OPENB,
            ("--column", "cpu=cpu_milli:0"),
            "--column cpu=cpu_milli:0: the factor must be greater than 0",
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
