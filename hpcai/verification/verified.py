"""Reading of results that are confirmed."""

from collections.abc import Sequence
from pathlib import Path

from hpcai.errors import InputError
from hpcai.record.loading import load
from hpcai.record.result import Result
from hpcai.verification import verify


def verified(path: Path) -> Result:
    """The result of a file, or of the folder that it is in; InputError if it is not as its raw measurements say."""
    file = path / "result.json" if path.is_dir() else path
    found = verify.differences(file)
    if found:
        raise InputError(f"{path} is not verified: {found[0]}; allowed: results that bench.py --verify confirms")
    return load(file)


def verified_once(paths: Sequence[Path]) -> list[tuple[Path, Result]]:
    """The results of all paths, without those of a run that stands before them; InputError as of `verified`."""
    found: dict[str, tuple[Path, Result]] = {}
    for path in paths:
        result = verified(path)
        found.setdefault(result.summary.fingerprint if result.summary else str(path), (path, result))
    return [*found.values()]
