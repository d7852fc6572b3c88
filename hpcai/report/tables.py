"""What is told of the tests that make a table: the printed block, and a file of rows beside the result."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

from hpcai import result as results
from hpcai.report import block as rows_of_hpl
from hpcai.report import collectives, kernels, nas, telemetry
from hpcai.report.text import printed

Json = dict[str, Any]

MIB = 2**20
ROWS: dict[str, Callable[[Json], str]] = {
    "ensemble": rows_of_hpl.block,
    "weather": rows_of_hpl.block,
    "nas": nas.block,
}
BLOCKS: dict[str, Callable[[Json, Sequence[Json]], str]] = {"kernels": kernels.block, "comm": collectives.block}


def block(result: Json, entry: Json) -> str:
    """What is printed of a test or table that has ended: a row of HPL with its lines, or a table."""
    if entry["workload"] in ROWS:
        return ROWS[entry["workload"]](entry)
    table = BLOCKS[entry["workload"]](entry, results.rows_of(result, entry))
    return table + printed([_memory(entry), telemetry.note(entry), ""])


def _memory(table: Json) -> str:
    used = table["raw"]["memory"]
    peak, baseline, planned = (used[f"{name}_bytes"] / MIB for name in ("peak", "baseline", "planned"))
    own = f", of its GPU {used['device_peak_bytes'] / MIB:.1f} MiB" if used["accelerated"] else ""
    since = "of the run so far" if used["whole_run"] else "of a rank"
    whose = "its GPU" if used["accelerated"] else "it"
    return (
        f"Memory  : peak {since} {peak:.1f} MiB, process and libraries {baseline:.1f} MiB of it{own}; "
        f"planned for {whose}: {planned:.1f} MiB"
    )


def blocks(result: Json) -> str:
    """All tests and tables, in the order in which they ended."""
    return "".join(block(result, entry) for entry in results.ended(result))


def comma_separated(rows: Sequence[Json]) -> str:
    """A line per row, its fields by name; what there is none of is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
