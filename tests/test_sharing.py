"""Records that share their equal parts, and texts and digests that are made in parts."""

import json
from hashlib import sha256
from pathlib import Path

from msgspec import structs, to_builtins
from result_with_tables import result_with_tables, with_tables

from hpcai.record.loading import load, load_in_parts, result_of
from hpcai.record.plain import digest, plain, text
from hpcai.record.sharing import LONG, shared


def test_equal_parts_are_the_same_objects_and_unequal_ones_stay() -> None:
    whole = result_with_tables()
    again = result_of(with_tables())
    assert again == whole and again is not whole and shared(again, whole) is whole
    (test, *_) = again.tests
    other = structs.replace(test, index=test.index + 1)
    found = shared(other, whole.tests[0])
    assert found == other and found is not whole.tests[0] and found.raw is whole.tests[0].raw


def test_values_that_are_written_otherwise_are_not_shared() -> None:
    assert str(shared(0.0, -0.0)) == "0.0" and str(shared((1.0, 0.0), (1.0, -0.0))) == "(1.0, 0.0)"
    assert shared({"a": 1, "b": 2}, {"b": 2, "a": 1}) == {"a": 1, "b": 2}
    assert [*shared({"a": 1, "b": 2}, {"b": 2, "a": 1})] == ["a", "b"]
    assert shared((1, 2), (1, 2, 3)) == (1, 2) and shared((1, 2, 3), (1, 2)) == (1, 2, 3)
    series = tuple(map(float, range(LONG + 1)))
    again = (*map(float, range(LONG)), -0.0)
    assert shared(tuple(map(float, series)), series) is series and shared(again, series) is again
    assert type(shared(1, True)) is int and type(shared(1, 1.0)) is int


def test_text_and_digest_are_those_of_the_whole_document() -> None:
    result = result_with_tables()
    assert text(result) == json.dumps(to_builtins(result), indent=1, ensure_ascii=False) + "\n"
    document = plain(result)
    bare = {name: value for name, value in document.items() if name not in ("summary", "digest")}
    canonical = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    expected = sha256(canonical.encode()).hexdigest()
    assert expected == digest(result, ("summary", "digest")) == digest(document, ("summary", "digest"))
    assert digest({"digest": 1}) == digest({}) == sha256(b"{}").hexdigest()


def test_a_result_is_read_in_parts_as_it_is_read_as_a_whole(tmp_path: Path) -> None:
    path, result = tmp_path / "result.json", result_with_tables()
    path.write_text(text(result), "utf-8")
    assert load_in_parts(path) == load(path) == result
    written = path.read_text("utf-8")
    another = written.replace('"hpcai-result/5"', '"hpcai-result/4"')
    no_results = ("[]", '{"schema": NaN}', '{"schema": []}', '{"schema": "hpcai-result/5"}')
    for damaged in (written[:-3], another, *no_results):
        path.write_text(damaged, "utf-8")
        assert load_in_parts(path) is None
    path.unlink()
    assert load_in_parts(path) is None

