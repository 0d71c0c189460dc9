"""Trace files: written, flushed, appended, read, and everything that can be wrong with them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dovetail.errors import InvalidInputError
from dovetail.trace.frames import zstd
from dovetail.trace.model import (
    CapacityError,
    Delete,
    End,
    Event,
    Finish,
    Gap,
    Header,
    Initial,
    Interruption,
    Scale,
    Set,
    Tasks,
    Template,
)
from dovetail.trace.reader import TraceReader, load_trace
from dovetail.trace.writer import TraceWriter

HEADER = Header(
    written_by="dovetail record 0.1.0", start=datetime(2026, 1, 31, 9, tzinfo=UTC), region="eu-west-1"
)
POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
EVENTS: tuple[Event, ...] = (
    Initial(t=0, object=NODE),
    Set(t=0, object=POOL),
    Template(t=5, id="small", workload="etl", template={"spec": {"containers": [{"name": "main"}]}}),
    Tasks(t=5, template="small", count=40, seconds=300.5),
    Scale(t=60, kind="Deployment", namespace="shop", name="web", replicas=7),
    Interruption(t=61.25, instance_type="m5.large", zone="eu-west-1a", count=2),
    CapacityError(t=62, instance_type="m5.large", zone="eu-west-1a", capacity_type="spot", seconds=180),
    Delete(t=63, kind="Deployment", namespace="shop", name="web"),
    Gap(t=400, seconds=300),
    End(t=86_400, notes=("3 pods of kind Workflow were left out",)),
)


def write(path: Path, *events: Event) -> Path:
    with TraceWriter(path, HEADER) as writer:
        for event in events:
            writer.write(event)
    return path


def lines(path: Path, *text: str) -> Path:
    """Write a trace as plain text, with the right header."""
    header = '{"format":"dovetail-trace","version":2,"writtenBy":"test","start":"2026-01-31T09:00:00Z"}'
    path.write_text("\n".join((header, *text)) + "\n")
    return path


def errors_in(path: Path) -> list[str]:
    with pytest.raises(InvalidInputError) as caught:
        load_trace(path)
    return [str(error).replace(str(path), "T") for error in caught.value.errors]


def test_every_kind_of_event_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write(tmp_path / "t.zst", *EVENTS)

    reader = TraceReader(path)

    assert reader.header == HEADER
    assert tuple(reader) == EVENTS
    assert reader.notes == []


def test_run_times_that_were_known_only_at_the_end_are_joined_to_their_tasks(tmp_path: Path) -> None:
    template = Template(t=0, id="a", template={"spec": {}})
    path = write(
        tmp_path / "t.zst",
        template,
        Tasks(t=1, template="a", id="1"),
        Tasks(t=2, template="a", id="2"),
        Finish(t=90, id="1", seconds=80),
        End(t=100),
    )

    trace = load_trace(path)

    assert [event.seconds for event in trace.events if isinstance(event, Tasks)] == [80, None]
    assert trace.seconds == 100


def test_the_end_of_an_initial_pod_stays_in_the_events(tmp_path: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b", "uid": "u-1"}}
    finish = Finish(t=30, id="u-1", seconds=80)
    path = write(tmp_path / "t.zst", Initial(t=0, object=pod), finish, End(t=100))

    trace = load_trace(path)

    assert trace.events == (Initial(t=0, object=pod), finish)


def test_flushed_events_survive_a_kill_and_the_trace_can_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "t.zst"
    writer = TraceWriter(path, HEADER)
    for event in EVENTS[:4]:
        writer.write(event)
    writer.flush()
    killed = path.read_bytes()
    writer.close()
    path.write_bytes(killed)

    reader = TraceReader(path)
    assert tuple(reader) == EVENTS[:4]
    assert "has no end" in reader.notes[0]

    with TraceWriter.append(path) as continued:
        continued.write(Gap(t=50, seconds=40))
        continued.write(End(t=60))
    assert tuple(TraceReader(path)) == (*EVENTS[:4], Gap(t=50, seconds=40), End(t=60))


def test_a_file_truncated_anywhere_yields_a_prefix_of_its_events_with_a_note(tmp_path: Path) -> None:
    whole = write(tmp_path / "t.zst", *EVENTS).read_bytes()
    path = tmp_path / "cut.jsonl"
    plain = zstd.decompress(whole)

    for length in range(plain.index(b"\n", plain.index(b"\n") + 1) + 1, len(plain) - 1):
        path.write_bytes(plain[:length])
        reader = TraceReader(path)
        events = tuple(reader)

        assert events == EVENTS[: len(events)]
        assert reader.notes


def test_100000_tasks_take_less_than_2_mb(tmp_path: Path) -> None:
    path = tmp_path / "t.zst"
    with TraceWriter(path, HEADER) as writer:
        writer.write(Template(t=0, id="a", template={"spec": {}}))
        for number in range(100_000):
            writer.write(Tasks(t=round(number * 0.864, 3), template="a", seconds=number * 7919 % 3600))

    assert path.stat().st_size < 2_000_000


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"")
    assert errors_in(tmp_path / "t") == ["T the trace is empty"]


def test_a_file_that_ends_within_its_first_frame_is_truncated_and_not_empty(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with TraceWriter(path, HEADER) as writer:
        writer.write(Template(t=0, id="a", template={"spec": {}}))
    path.write_bytes(path.read_bytes()[:20])

    assert errors_in(path) == ["T the trace is truncated: no line is complete"]


def test_a_trace_with_only_a_header_is_named(tmp_path: Path) -> None:
    assert errors_in(write(tmp_path / "t")) == ["T the trace has a header and no events"]


def test_a_file_that_is_no_trace_is_named(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("apiVersion: v1\n")
    assert errors_in(tmp_path / "t") == ["T:1 this is not a trace: the first line is not JSON"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert errors_in(tmp_path / "t") == ["T does not exist"]


def test_a_future_format_version_says_to_upgrade(tmp_path: Path) -> None:
    (tmp_path / "t").write_text('{"format":"dovetail-trace","version":3}\n')
    assert errors_in(tmp_path / "t") == [
        "T:1 format version 3 is unknown; this release reads versions up to 2; upgrade dovetail"
    ]


@pytest.mark.parametrize(
    "line", ['{"event":"end","t":1e300}', '{"event":"tasks","t":1,"template":"a","seconds":9223372036854}']
)
def test_a_time_of_more_than_ten_years_is_an_error_with_its_line(tmp_path: Path, line: str) -> None:
    (error,) = errors_in(lines(tmp_path / "t", line, '{"event":"end","t":2}'))

    assert error.startswith("T:2 ")
    assert error.endswith(": is longer than ten years; the unit is seconds")


def test_a_start_beyond_the_calendar_is_an_error(tmp_path: Path) -> None:
    lines(tmp_path / "t", '{"event":"end","t":2}')
    text = (tmp_path / "t").read_text()
    (tmp_path / "t").write_text(text.replace("2026-01-31", "9999-12-31"))

    assert errors_in(tmp_path / "t") == ["T:1 start: the year is not between 1970 and 2999"]


def test_a_damaged_frame_is_an_error_with_the_line_before_it(tmp_path: Path) -> None:
    first = write(tmp_path / "a", *EVENTS[:3]).read_bytes()
    (tmp_path / "t").write_bytes(first + b"not zstd at all")

    assert errors_in(tmp_path / "t")[0].startswith("T:5 the file is damaged after this line")


def test_two_traces_in_one_file_are_named(tmp_path: Path) -> None:
    whole = write(tmp_path / "a", *EVENTS).read_bytes()
    (tmp_path / "t").write_bytes(whole + whole)

    assert errors_in(tmp_path / "t") == [
        f"T:{len(EVENTS) + 2} there is a second header: two traces are mixed; replay them one by one"
    ]


def test_all_wrong_lines_are_reported_at_once(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "t",
        '{"event":"scale","t":5,"kind":"Deployment","namespace":"a","name":"b","replicas":-1}',
        '{"event":"scael","t":5}',
        '{"event":"gap","t":9,"seconds":1}',
        '{"event":"gap","t":8,"seconds":1}',
        '{"event":"set","t":9,"object":{"kind":"Pod","apiVersion":"v1"}}',
        '{"event":"tasks","t":9,"template":"none"}',
        '{"event":"finish","t":9,"id":"7","seconds":1}',
        '{"event":"interruption","t":9}',
        '{"event":"gap","t":9,"seconds":1,"second":2}',
        "[]",
        "{",
        '{"event":"end","t":9}',
        '{"event":"scale","t":10,"kind":"Deployment","namespace":"a","name":"b","replicas":1}',
    )

    assert errors_in(path) == [
        "T:2 replicas: Expected `int` >= 0",
        "T:3 event: 'scael' is not an event; did you mean 'scale'?",
        "T:5 t: 8 is before 9 of an earlier line; sort the events by t",
        "T:6 object.metadata.name: is missing",
        "T:7 template: 'none' is not defined in an earlier line",
        "T:8 id: there are no tasks '7' in an earlier line",
        "T:9 an interruption has a count or a share",
        "T:10 Object contains unknown field `second`",
        "T:11 this line is no event: it has no 'event'",
        "T:12 this line is not JSON: Input data was truncated",
        "T:14 after an end only a gap can follow; these are two traces",
    ]


@pytest.mark.parametrize("written", ["nothing", "truncated", "half of the frame", "all"])
def test_recovery_that_is_killed_loses_nothing(tmp_path: Path, written: str) -> None:
    path = write(tmp_path / "killed.zst", EVENTS[0])
    complete = path.stat().st_size
    writer = TraceWriter.append(path)
    for event in EVENTS[1:4]:
        writer.write(event)
    writer.flush()
    killed = path.read_bytes()
    writer.close()
    path.write_bytes(killed)
    TraceWriter.append(path).close()
    recovered = path.read_bytes()
    half = (complete + len(recovered)) // 2
    left = {
        "nothing": killed,
        "truncated": killed[:complete],
        "half of the frame": recovered[:half],
        "all": recovered,
    }
    path.write_bytes(left[written])
    record = tmp_path / "killed.zst.recovery"
    record.write_bytes(complete.to_bytes(8) + recovered[complete:])

    TraceWriter.append(path).close()

    assert load_trace(path).events == EVENTS[:4]
    assert not record.exists()
