"""Files of a recorder: rotation, locks, and disks that cannot be written."""

from datetime import timedelta
from pathlib import Path

import pytest

from dovetail.errors import DovetailError, InvalidInputError
from dovetail.record.output import Rotation, TraceOutput
from dovetail.trace.model import End, Gap, Header
from dovetail.trace.reader import load_trace
from dovetail.trace.writer import TraceWriter
from tests.record.objects import START


def header(hours: int = 0) -> Header:
    return Header(written_by="test", start=START + timedelta(hours=hours))


def test_a_full_file_is_renamed_after_its_start_and_the_oldest_are_deleted(tmp_path: Path) -> None:
    output = TraceOutput(tmp_path / "t.jsonl.zst", Rotation(every=timedelta(hours=1), keep=2))

    for hour in range(4):
        output.begin(header(hour))
        output.write([Gap(t=1, seconds=1)])
        assert not output.is_full(START + timedelta(hours=hour, minutes=59))
        assert output.is_full(START + timedelta(hours=hour + 1))
        output.rotate(3600)
    output.begin(header(4))
    output.end(0)
    output.close()

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["t-20260302T100000Z.jsonl.zst", "t-20260302T110000Z.jsonl.zst", "t.jsonl.zst"]
    trace = load_trace(tmp_path / names[0])
    assert (trace.header.start, trace.seconds) == (START + timedelta(hours=2), 3600)


def killed_in_recovery(path: Path) -> Header:
    """Leave a file and its record as a recorder that is killed before it wrote the frame again."""
    written = Header(written_by="dovetail record 1", start=START)
    with TraceWriter(path, written) as writer:
        writer.write(Gap(t=1, seconds=1))
    path.with_name(f"{path.name}.recovery").write_bytes(bytes(8) + path.read_bytes())
    path.write_bytes(b"")
    return written


def test_a_file_whose_recovery_was_interrupted_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"
    written = killed_in_recovery(path)
    output = TraceOutput(path, Rotation())

    continued = output.read_header()
    output.close()

    assert continued == written
    assert load_trace(path).events == (Gap(t=1, seconds=1),)
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_does_not_get_what_was_recovered_of_the_one_that_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"
    killed_in_recovery(path)
    with TraceWriter(path, header(1)) as writer:
        writer.write(Gap(t=2, seconds=2))

    with TraceWriter.append(path) as writer:
        writer.write(End(t=3))

    assert load_trace(path).header == header(1)


def test_a_file_that_was_cut_before_its_first_line_is_kept_and_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"
    with TraceWriter(path, header()) as writer:
        writer.write(Gap(t=1, seconds=1))
    cut = path.read_bytes()[:40]
    path.write_bytes(cut)
    output = TraceOutput(path, Rotation())

    assert output.read_header() is None
    assert output.read_existing() is None
    assert output.kept is not None
    assert output.kept.read_bytes() == cut

    output.close()


def test_a_second_recorder_cannot_write_the_same_file(tmp_path: Path) -> None:
    first = TraceOutput(tmp_path / "t.zst", Rotation())

    with pytest.raises(DovetailError, match=r"t\.zst is being written by another recorder"):
        TraceOutput(tmp_path / "t.zst", Rotation())

    first.close()
    TraceOutput(tmp_path / "t.zst", Rotation()).close()


def test_a_full_disk_is_an_error_that_names_the_file() -> None:
    output = TraceOutput(Path("/dev/full"), Rotation())
    output.begin(header())

    with pytest.raises(DovetailError, match="/dev/full cannot be written: No space left on device"):
        output.write([End(t=0)])

    output.close()


def test_a_path_that_cannot_be_written_is_an_error_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(DovetailError, match=r"missing/t\.zst cannot be written: No such file or directory"):
        TraceOutput(tmp_path / "missing" / "t.zst", Rotation())


def test_a_file_that_is_no_trace_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    output = TraceOutput(path, Rotation())

    with pytest.raises(InvalidInputError) as caught:
        output.read_existing()

    assert str(caught.value.errors[0]) == f"{path}:1 this is not a trace: the first line is not JSON"
    assert path.read_text() == "my notes\n"
    output.close()


def test_a_trace_that_no_recorder_wrote_is_neither_continued_nor_renamed(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"
    with TraceWriter(path, Header(written_by="dovetail trace import csv 0.1.0", start=START)) as writer:
        writer.write(End(t=60))
    before = path.read_bytes()
    output = TraceOutput(path, Rotation())

    with pytest.raises(
        DovetailError, match=r"was written by 'dovetail trace import csv 0\.1\.0' and cannot be continued"
    ):
        output.read_header()

    output.close()
    assert path.read_bytes() == before


def test_a_trace_of_an_earlier_format_is_kept_under_the_name_of_its_start(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"
    header = Header(written_by="dovetail record 0.1.0", start=START, version=1)
    with TraceWriter(path, header) as writer:
        writer.write(End(t=60))
    output = TraceOutput(path, Rotation())

    continued = output.read_header()

    assert continued is None
    output.close()
    (kept,) = tmp_path.iterdir()
    assert kept == output.kept
    assert kept.name == "t-20260302T080000Z.jsonl.zst"
    assert load_trace(kept).header == header
