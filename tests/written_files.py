"""Files of a result, as tests of their contents alter them: without SHA256SUMS, which a forger can remove."""

from pathlib import Path

from hpcai.record.result import Result
from hpcai.report import checksums, files


def write_unlisted(folder: Path, result: Result) -> None:
    """Write the files of a result without SHA256SUMS."""
    files.write(folder, result)
    (folder / checksums.NAME).unlink()
