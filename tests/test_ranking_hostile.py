"""Hostile files and names: told in one line each, without control characters, formulas or endless reading."""

import csv
import json
import os
from pathlib import Path

import pytest
from ranking_files import listed, of_site, report_only, written

from hpcai.ranking import contents, examine, pool, report_parser
from hpcai.ranking.submission import Apart, Submission
from hpcai.record.plain import plain, text
from hpcai.report import files
from hpcai.results.cells import MOST_TEXT, cell

Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def apart(capsys: Out) -> list[str]:
    """The lines of what is not ranked."""
    return capsys.readouterr().out.partition("Not ranked:\n")[2].splitlines()


def test_a_cell_is_one_printable_line() -> None:
    assert cell("a\x1b[31m\nb\u202ec\x00") == "a?[31m b?c?"
    assert len(cell("x" * 10_000_000)) == MOST_TEXT and cell("\udcff") == "?"


@pytest.mark.parametrize("header", ["x" * 500, "=cmd()", "@SUM(A1)", "+1", "-1", "=HYPERLINK(1)"])
def test_hostile_headers(header: str, tmp_path: Path, capsys: Out) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "result.json").write_text(text(of_site(header)), "utf-8")
    report = report_only(tmp_path / "report", of_site(f"{header} ", more=1))
    assert listed(folder, report, "--csv", tmp_path / "lists.csv") == 0
    said = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in said)
    assert max(map(len, said.splitlines())) <= 132
    rows = [*csv.reader((tmp_path / "lists.csv").read_text("utf-8").splitlines())]
    assert len(rows) == 1 + 4 and not any(found[:1] in ("=", "+", "@", "\t") for row in rows for found in row)
    assert all(row[1][:1] != "-" and len(row[1]) <= MOST_TEXT + 1 for row in rows)


@pytest.mark.parametrize("header", ["\x1b[31mred", "\u202eabc", "a\r=b", "x" * 1_000_000, "\x85 1 2 3 4"])
def test_headers_that_no_input_has(header: str, tmp_path: Path, capsys: Out) -> None:
    """Such a result is not verified; such a report is listed by what is printable."""
    document = plain(of_site("Site"))
    document["input"]["headers"][0] = header
    document["input"]["text"] = document["input"]["text"].replace("Site", header, 1)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document), "utf-8")
    report = report_only(tmp_path / "report", of_site("Site"))
    report.write_text(report.read_text().replace("Header : Site", f"Header : {header}", 1))
    assert listed(path, report) == 0
    said = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in said) and len(said) < 5000
    assert "List from-report/" in said and f"{path}: " in said and "\nList ensemble" not in said


def test_a_large_file_is_refused_by_its_size(tmp_path: Path, capsys: Out) -> None:
    for name in ("result.json", "report.txt"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, 2**30)  # without blocks on the disk
        assert listed(tmp_path / name) == 2
        assert apart(capsys) == [f"  {tmp_path / name}: {name} has {2**30} bytes; allowed: {contents.MOST_BYTES}"]


def test_a_large_report_is_refused_before_it_is_parsed(tmp_path: Path, capsys: Out) -> None:
    report = report_only(tmp_path / "report", of_site("Large"))
    os.truncate(report, examine.MOST_BYTES_OF_REPORT + 1)
    assert listed(report) == 2
    assert "report.txt has 4194305 bytes; allowed without a result: 4194304" in apart(capsys)[0]


@pytest.mark.parametrize("line", [" " * 400, "1 2 KEY (other)", "KEY", "1 2 KEY ", "[ 1", "1 2 Key"])
def test_what_is_no_setting_is_passed_over(line: str) -> None:
    assert [*report_parser.settings_of([line])] == []


def test_settings_are_read_from_the_right() -> None:
    lines = ["1  2    KEY", "[section]", "a b    OTHER   (default)"]
    assert [*report_parser.settings_of(lines)] == [(("", "KEY"), ["1", "2"]), (("section", "OTHER"), ["a", "b"])]


def test_a_large_file_beside_a_result_is_refused(tmp_path: Path, capsys: Out) -> None:
    folder = written(tmp_path / "run", of_site("Large"))
    os.truncate(folder / "result.csv", 2**30)
    assert listed(folder) == 2
    assert "result.csv has 1073741824 bytes" in apart(capsys)[0]


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b'{"schema": "hpcai-result/5"}', b"NaN"])
def test_what_is_no_result_is_told_in_one_line(content: bytes, tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "result.json").write_bytes(content)
    assert listed(tmp_path) == 2
    [line] = apart(capsys)
    assert line.startswith(f"  {tmp_path / 'result.json'}: ")


def test_a_pipe_is_not_waited_for(tmp_path: Path, capsys: Out) -> None:
    os.mkfifo(tmp_path / "result.json")
    folder = written(tmp_path / "run", of_site("Pipe"))
    (folder / "series.h5").unlink()
    os.mkfifo(folder / "series.h5")
    assert listed(tmp_path) == 2
    assert [line.rpartition(": ")[2] for line in apart(capsys)] == ["result.json is no file", "series.h5 is no file"]


def test_loops_of_links_end(tmp_path: Path, capsys: Out) -> None:
    runs = tmp_path / "runs"
    written(runs / "a", of_site("Linked"))
    (runs / "a" / "up").symlink_to(runs)
    (runs / "self").symlink_to(runs / "self")
    (runs / "b").mkdir()
    (runs / "b" / "result.json").symlink_to("result.json")
    assert listed(runs) == 0
    said = capsys.readouterr().out
    [line] = said.partition("Not ranked:\n")[2].splitlines()
    assert line.startswith(f"  {runs / 'b' / 'result.json'}: ") and said.count("  Linked  ") == 2


def test_what_cannot_be_read(tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without permission is told, and the others are read; the root of a container may read anything."""
    written(tmp_path / "runs" / "open", of_site("Open"))
    closed = tmp_path / "runs" / "closed"
    closed.mkdir()
    scandir = os.scandir

    def refusing(path: Path) -> object:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert listed(tmp_path / "runs") == 0
    assert apart(capsys) == [f"  {closed}: cannot be read: Permission denied"]


def test_without_a_path_that_can_be_read(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "empty").mkdir()
    assert listed(tmp_path / "missing", tmp_path / "empty", "a\0b") == 2
    found = capsys.readouterr()
    assert f"{tmp_path / 'missing'}: cannot be read: No such file or directory" in found.out
    assert found.err == "hpcai-ranking: no result.json and no report.txt could be read\n"


def test_without_permission_for_any_path(tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "run", of_site("Closed"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert listed(folder / "result.json", "--no-cache") == 2
    assert "could be read" in capsys.readouterr().err


def test_a_page_onto_a_pipe_is_written_into_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.replace(pipe, b"page")
    assert os.read(reader, 10) == b"page" and pipe.is_fifo() and [*tmp_path.iterdir()] == [pipe]
    os.close(reader)


@pytest.mark.parametrize(
    "options", [("--baseline", ".", "--html", "a"), ("--baseline", ".", "--list", "a"), ("--html", "")]
)
def test_options_that_do_not_belong_together_are_refused(options: tuple[str, ...], capsys: Out) -> None:
    with pytest.raises(SystemExit) as raised:
        listed(".", *options)
    assert raised.value.code == 2 and capsys.readouterr().err.count("\n") == 1


def test_a_list_that_there_is_not(tmp_path: Path, capsys: Out) -> None:
    folder = written(tmp_path / "run", of_site("Some"))
    assert listed(folder, "--list", "absent") == 2
    assert "no list 'absent'; there are ensemble/" in capsys.readouterr().err


def test_a_report_with_the_row_of_a_table_ends_nothing(tmp_path: Path, capsys: Out) -> None:
    """Digit 0 in T/V is of no row."""
    report = report_only(tmp_path / "report", of_site("Hostile"))
    report.write_text(report.read_text().replace("WR10S1V4", "WR00S1V4"))
    listed(report, written(tmp_path / "run", of_site("Sound", more=1)))
    said = capsys.readouterr().out
    assert f"{report}: a row of the report cannot be read" in said and "  Sound  " in said


@pytest.mark.parametrize("error", [RecursionError, StopIteration, KeyError])
def test_any_error_of_a_file_is_told(error: type[Exception]) -> None:
    def failing() -> Submission:
        raise error("deep")

    found = examine.told(Path("a.json"), failing)
    assert isinstance(found, Apart) and found.reason.startswith(f"cannot be read: {error.__name__}: ")


def failing_on(path: Path) -> Submission | Apart:
    """An error of one file, in its process."""
    if path.name == "failing.json":
        raise StopIteration
    return Apart(str(path), "")


def test_an_error_in_a_process_ends_no_ranking() -> None:
    paths = [Path("failing.json"), *(Path(f"{number}.json") for number in range(pool.FEW))]
    failed, *others = pool.examined(paths, failing_on, 2)
    assert failed == Apart("failing.json", pool.ENDED) and {each.reason for each in others} == {""}


def killed_by(path: Path) -> Submission | Apart:
    """As examine, but a file of this name ends its process."""
    if path.name == "deadly.json":
        os._exit(9)
    return examine.examine(path, None, "")


@pytest.mark.slow
def test_a_file_that_ends_its_process_ends_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "FEW", 0)
    paths = [tmp_path / name for name in ("a.json", "deadly.json", "b.json")]
    paths[0].write_text(text(of_site("First")))
    paths[2].write_text(text(of_site("Last")))
    first, deadly, last = pool.examined(paths, killed_by, 2)
    assert isinstance(first, Submission) and isinstance(last, Submission)
    assert deadly == Apart(str(paths[1]), pool.ENDED)


def test_a_file_that_takes_too_long_is_listed_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "MOST_SECONDS", 0.05)

    def endless() -> Submission:
        while True:
            pass

    found = examine.told(tmp_path, endless)
    assert isinstance(found, Apart) and "TimeoutError: not verified within 0.05 s" in found.reason
