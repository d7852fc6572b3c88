"""MLPerf logs of the models of a test, by the writer of the package mlperf_logging (the extra `mllog`)."""

from importlib.util import find_spec
from pathlib import Path

FOLDER, SYSTEM = "mllog", "system.json"  # in the result folder
RULES = Path(__file__).with_name("rules") / "hpcai.yaml"


def log_path(folder: Path, test: int, group: int) -> Path:
    """The log of a group, from 0, in a result folder."""
    return folder / FOLDER / f"test-{test}" / f"result_{group}.txt"


def refusal() -> str:
    """Why no log can be written here; empty if one can."""
    if find_spec("mlperf_logging"):
        return ""
    return "MLLOG on needs the package mlperf-logging; allowed: pip install 'hpcai-bench[mllog]', or MLLOG off"
