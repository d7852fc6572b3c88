"""No code gathers a Python object of every rank: only the places below do, each for a reason why that stays small."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hpcai
from hpcai.comm.grid_coordinates import LISTED_RANKS
from hpcai.record.machine import MOST_NODES

Place = tuple[str, str, str]  # file, function, name

OBJECTS = (
    *("gather", "allgather", "alltoall", "scatter", "igather", "iallgather", "ialltoall", "alltoallw"),
    *("neighbor_allgather", "neighbor_alltoall"),
    *("gather_object", "all_gather_object", "scatter_object_list"),
    *("gather_all", "gather_listed"),
)
SUMS = ("allreduce", "reduce", "iallreduce", "ireduce")
NODE = "ranks of one node"
MODEL = "ranks that share one replica of a model"
LIST = f"the first {LISTED_RANKS} ranks"
TELEMETRY = f"one rank of each of at most {MOST_NODES} nodes"
FRAMES = "the detections of the validation set, as many on any number of ranks; three empty lists of other ranks"
DATA = "an entry of each file or block of the data, as many on any number of ranks; before the first test"
PACKING = "a program that packs data: an entry of each shard or folder, as many on any number of ranks"
TENSORS = "elements of a tensor or of an array: nothing is sent"
NO_MPI = "asyncio: nothing is sent"
DRAWN = "points of a plot"
ALLOWED: dict[Place, str] = {
    ("comm/device_selection.py", "select_device", "gather_all"): NODE,
    ("comm/reachability.py", "_unreached", "gather"): NO_MPI,
    ("comm/world.py", "bind_to_processors", "gather_all"): NODE,
    ("comm/world.py", "gather_all", "allgather"): "whoever calls gather_all is in this list",
    ("comm/world.py", "gather_listed", "gather_all"): LIST,
    ("data/pack/check.py", "print_differences", "allgather"): PACKING,
    ("data/pack/resume.py", "_damaged", "allgather"): PACKING,
    ("data/pack/source.py", "_scanned", "allgather"): PACKING,
    ("data/staging.py", "claim", "gather_all"): NODE,
    ("data/weather/survey.py", "_by_all", "allgather"): DATA,
    ("frozen/network.py", "_max_pool", "reduce"): TENSORS,
    ("models/detection/assign.py", "rows", "gather"): TENSORS,
    ("models/detection/assign.py", "sample", "gather"): TENSORS,
    ("models/detection/losses.py", "anchor_losses", "gather"): TENSORS,
    ("models/detection/losses.py", "region_losses", "gather"): TENSORS,
    ("models/detection/proposals.py", "detections", "gather"): TENSORS,
    ("monitoring/node_telemetry.py", "__init__", "gather_all"): NODE,
    ("monitoring/over_nodes.py", "further", "gather"): TELEMETRY,
    ("report/plots.py", "scaling", "scatter"): DRAWN,
    ("report/rooflines.py", "_scatter", "scatter"): DRAWN,
    ("report/rooflines.py", "_tests", "scatter"): DRAWN,
    ("run.py", "_head", "gather_listed"): LIST,
    ("run.py", "accelerators", "gather_all"): NODE,
    ("train/data_parallel.py", "differs_from_others", "allgather"): MODEL,
    ("train/element_readers.py", "begin", "gather"): TENSORS,
    ("train/element_readers.py", "read", "gather"): TENSORS,
    ("train/evaluation_check.py", "_possible", "gather"): TENSORS,
    ("train/other_shards.py", "norms", "allgather"): MODEL,
    ("training/energy_window.py", "__init__", "gather_all"): NODE,
    ("workloads/nas/plots.py", "_marks", "scatter"): DRAWN,
    ("workloads/nas/plots.py", "tree", "scatter"): DRAWN,
    ("workloads/weather/detections_file.py", "write", "gather"): FRAMES,
}


def used(text: str) -> Iterator[tuple[str, str]]:
    """Functions of a module with the names of OBJECTS that they use, called or not, and sums that join lists."""

    def of(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if (name := _name(child)) in OBJECTS or _joins(child):
                yield function, name
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from of(child, child.name if inside else function)

    yield from of(ast.parse(text), "")


def _name(node: ast.AST) -> str:
    """The name that an expression ends with, or that a string is."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)):
            return name
        case ast.Call(func=called):
            return _name(called)
    return ""


def _joins(node: ast.AST) -> bool:
    """Whether a call joins lists of all ranks: their sum, which a reduction makes by default."""
    if not (isinstance(node, ast.Call) and _name(node) in SUMS and len(node.args) == 1):
        return False
    return isinstance(node.args[0], ast.List | ast.ListComp | ast.Tuple)


def places(root: Path) -> set[Place]:
    """All places in the modules below a folder."""
    files = {path: str(path.relative_to(root)) for path in root.rglob("*.py")}
    return {(name, *found) for path, name in files.items() for found in used(path.read_text("utf-8"))}


def test_objects_are_gathered_only_where_they_stay_few() -> None:
    found = places(Path(hpcai.__file__).parent)
    assert not found - {*ALLOWED}, "gathers objects, maybe of all ranks: use a reduction, or say why they stay few"
    assert not {*ALLOWED} - found, "does not gather objects any more"


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        ("comm.alltoall([None] * comm.size)", "alltoall"),
        ("world.comm.allgather(seconds)", "allgather"),
        ("self._group.active.gather(record)", "gather"),
        ("every = comm.allgather\n    every(record)", "allgather"),
        ("getattr(comm, 'allgather')(record)", "allgather"),
        ("distributed.all_gather_object(every, record)", "all_gather_object"),
        ("worlds.gather_all(world.comm, record)", "gather_all"),
        ("comm.allreduce([record])", "allreduce"),
        ("comm.allreduce((comm.rank, record))", "allreduce"),
        ("comm.allreduce((seconds, comm.rank), MPI.MAX)", ""),
        ("comm.Allgather(own, every)", ""),
    ],
)
def test_a_planted_call_is_found(tmp_path: Path, planted: str, name: str) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "totals.py").write_text(f"def totals(comm):\n    {planted}\n")
    assert places(tmp_path) == ({("results/totals.py", "totals", name)} if name else set())
