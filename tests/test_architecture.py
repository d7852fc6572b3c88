"""The structure of the code: directions of imports, and constructs that are allowed in one place only."""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from launch import ROOT

# A module imports from its own group and from those above it. Entries are modules and folders of hpcai/; of the folders
# of workloads: `workloads` is their declarations and the registry, `workloads.x` the modules x and ..._x of each, and
# `workloads.*` every other module of them.
GROUPS = (
    ("errors", "choices", "kernels", "frozen", "hdf5_tables"),
    ("inputfile", "networks", "workloads", "workloads.keys", "formulas.precision"),
    (
        *("update_rules", "gradients", "formulas", "opcount", "estimate", "detections", "record", "results"),
        *("workloads.record", "workloads.checks", "workloads.scores", "workloads.credits"),
    ),
    ("machine", "comm", "clock", "second_clock", "tensor_file", "tensor_tree", "report.checksums", "watch"),
    (
        *("checkpoint", "data", "models", "train", "mllog", "search", "claims"),
        *("workloads.claims", "workloads.trials", "workloads.data"),
    ),
    ("preflight", "workloads.preflight"),
    ("plan", "training", "workloads.plan"),
    ("monitoring", "workloads.*"),
    ("report", "workloads.lines", "workloads.files", "workloads.plots"),
    ("verification",),
    ("projection",),
    ("study",),
    ("ranking",),
    ("cli", "run", "attempts", "recorder", "resumption", "main"),
)
LEVELS = {name: level for level, group in enumerate(GROUPS) for name in group}
CLOCKS = ("perf_counter", "monotonic", "process_time", "clock_gettime", "clock_gettime_ns")
CLOCKS += ("perf_counter_ns", "monotonic_ns", "time_ns", "thread_time", "time", "timeit")
GPU_LIBRARIES = ("cupy", "cupyx", "cuda", "pynvml", "triton", "pycuda", "numba.cuda")
# Functions that search for a GPU or choose one; other uses of torch.cuda act on a given device.
GPU_QUESTIONS = ("is_available", "device_count", "set_device", "current_device", "get_device_properties")
KERNEL_FILES = {"__init__.py", "reference.py", "numba_cpu.py", "cupy_gpu.py", "vendor.py"}
EMPTY_NAMES = ("utils", "util", "misc", "common", "helpers")
MOST_LINES, MOST_IN_LINE = 250, 120

HPCAI = sorted((ROOT / "hpcai").rglob("*.py"))
KERNELS = sorted((ROOT / "kernels").rglob("*.py"))
WORKLOADS = ROOT / "hpcai/workloads"
SECTIONS = {path.parent.name for path in HPCAI if path.parent.parent == WORKLOADS}
STAGES = [
    *(ROOT / "hpcai/training" / name for name in ("stages.py", "totals.py")),
    *(ROOT / "hpcai" / name for name in ("estimate/seconds.py", "record/phases.py", "record/training.py")),
    ROOT / "hpcai/watch/page.py",
]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
CPP = (".cu", ".cuh", ".h", ".cpp")  # which the linter does not check
CPLUSPLUS = sorted(path for folder in ("kernels", "tests") for path in (ROOT / folder).rglob("*") if path.suffix in CPP)


def name_of(path: Path) -> str:
    """Dotted name; files of the folder kernels/ have the name they are imported by, hpcai.kernels."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = ("hpcai", *parts) if parts[0] == "kernels" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in [*HPCAI, *KERNELS]}


def known(name: str) -> str:
    """The module of this project that a dotted name belongs to, or the name itself."""
    parts = name.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in MODULES), name)


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of a file's syntax tree."""
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


def imports(path: Path) -> Iterator[str]:
    """Names of all modules imported anywhere in a file, including late imports and those for type checkers."""
    package = name_of(path).split(".")[: None if path.name == "__init__.py" else -1]
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (known(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *filter(None, [node.module])])
            yield from (known(f"{origin}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            yield from (known(str(word.value)) for word in node.args if isinstance(word, ast.Constant))


@cache
def attributes(path: Path) -> frozenset[str]:
    """Dotted names used in a file, as far as they are written literally."""
    return frozenset(ast.unparse(node) for node in nodes(path) if isinstance(node, ast.Attribute))


def group_of(name: str) -> str:
    """The entry of GROUPS that a module of hpcai belongs to."""
    first, *rest = name.split(".")[1:]
    if ".".join([first, *rest]) in LEVELS:
        return ".".join([first, *rest])
    if first != "workloads":
        return first
    part = f"workloads.{rest[1].rpartition('_')[2]}" if len(rest) > 1 else "workloads"
    return part if part in LEVELS else "workloads.*"


def level(name: str) -> int:
    """Level of the group of a module of hpcai; the bare package, which has the version, is above all."""
    return LEVELS[group_of(name)] if "." in name else -1


def is_within(name: str, packages: Iterable[str]) -> bool:
    """Whether a dotted name is one of these packages or within one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def violations(paths: list[Path], rule: Callable[[Path], object]) -> list[str]:
    """Violations of the rule, by file."""
    return [f"{path.relative_to(ROOT)}: {found}" for path in paths if (found := rule(path))]


def test_every_module_has_its_group() -> None:
    strangers = {name for name in MODULES if "." in name and group_of(name) not in LEVELS}
    assert not strangers, f"enter in GROUPS of {Path(__file__).name}, after thinking: {sorted(strangers)}"
    assert len(LEVELS) == sum(map(len, GROUPS)), "a module is in two groups"


def test_imports_are_found_anywhere_in_a_file() -> None:
    assert "torch" in imports(ROOT / "hpcai/clock.py")
    assert "hpcai.kernels.spec" in imports(ROOT / "kernels/gemm/__init__.py")
    assert "hpcai.kernels.gemm" in imports(ROOT / "kernels/gemm/reference.py")
    assert "hpcai" in imports(ROOT / "hpcai/cli.py")
    assert "hpcai.main" in imports(ROOT / "bench.py")


def test_imports_are_from_groups_above() -> None:
    def below(path: Path) -> list[str]:
        return [name for name in imports(path) if name in MODULES and level(name) > level(name_of(path))]

    assert not violations(HPCAI, below)


def test_kernels_import_nothing_of_hpcai() -> None:
    def above(path: Path) -> list[str]:
        foreign = (name for name in imports(path) if is_within(name, ["hpcai"]))
        return [name for name in foreign if not is_within(name, ["hpcai.kernels"])]

    assert not violations(KERNELS, above)


def test_no_cycles() -> None:
    edges = {name: {other for other in imports(path) if other in MODULES} - {name} for name, path in MODULES.items()}
    # `from package import module` inside the package reads the module, not the names in the package's __init__.
    for name, targets in edges.items():
        targets -= {other for other in targets if name.startswith(f"{other}.")}
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' <- '.join(error.args[1])}", pytrace=False)


def test_a_section_is_named_only_in_its_own_folder() -> None:
    """All other code uses the workload's declaration, so that a new workload changes nothing outside of its folder."""

    def others(path: Path) -> set[str]:
        own = {path.parent.name} if path.parent.parent == WORKLOADS else set()
        if path in STAGES:
            own.add("ensemble")  # the stage in which the models are evaluated together
        constants = (node for node in nodes(path) if isinstance(node, ast.Constant))
        return {node.value for node in constants if node.value in SECTIONS} - own

    assert {"ensemble", "weather", "nas", "kernels", "comm"} <= SECTIONS
    assert not violations([*HPCAI, *KERNELS, ROOT / "bench.py"], others)


def test_one_clock() -> None:
    readings = {"timeit", *(f"time.{clock}" for clock in CLOCKS)}
    clocks = (ROOT / "hpcai/clock.py", ROOT / "hpcai/second_clock.py")
    others = [path for path in [*HPCAI, *KERNELS] if path not in clocks]
    assert not violations(others, lambda path: readings & {*imports(path), *attributes(path)})


def test_gpu_libraries_are_imported_only_in_their_backend() -> None:
    backend = [path for path in KERNELS if path.name == "cupy_gpu.py" or path.parent == ROOT / "kernels/cuda"]
    others = [path for path in [*HPCAI, *KERNELS] if path not in backend]
    assert not violations(others, lambda path: [name for name in imports(path) if is_within(name, GPU_LIBRARIES)])


def test_gpus_are_searched_for_in_one_place() -> None:
    questions = {f"torch.cuda.{question}" for question in GPU_QUESTIONS}
    others = [path for path in [*HPCAI, *KERNELS] if path != ROOT / "hpcai/machine/device.py"]
    assert not violations(others, lambda path: questions & {*imports(path), *attributes(path)})


def test_no_file_is_too_long() -> None:
    def lines(path: Path) -> int:
        return len(path.read_text(encoding="utf-8").splitlines())

    files = [*HPCAI, *KERNELS, *TESTS, *CPLUSPLUS]
    long = violations(files, lambda path: lines(path) if lines(path) > MOST_LINES else None)
    assert not long, f"more than {MOST_LINES} lines; divide by subject: {long}"


def too_long(path: Path) -> list[int]:
    """Numbers of the lines that have too many characters."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return [number for number, line in lines if len(line) > MOST_IN_LINE]


def test_no_line_of_cplusplus_is_too_long(tmp_path: Path) -> None:
    (tmp_path / "wide.cu").write_text("/" * MOST_IN_LINE + "\n" + "/" * (MOST_IN_LINE + 1))
    assert too_long(tmp_path / "wide.cu") == [2]
    assert {path.suffix for path in CPLUSPLUS} == {*CPP}
    long = violations(CPLUSPLUS, too_long)
    assert not long, f"more than {MOST_IN_LINE} characters: {long}"


def test_no_module_has_a_meaningless_name() -> None:
    assert not [path for path in [*HPCAI, *KERNELS, *TESTS] if path.stem in EMPTY_NAMES]


def test_kernel_folders_have_the_same_files() -> None:
    """A kernel's folder has its reference and a file per backend; longer algorithms are in cpu/ and cuda/ below it."""
    shared = {ROOT / "kernels", *(ROOT / "kernels" / name for name in ("cpu", "cuda", "operators"))}
    folders = {path.parent for path in KERNELS if path.parent.parent == ROOT / "kernels"} - shared
    names = {folder.name: {path.name for path in folder.glob("*.py")} for folder in folders}
    assert all({"__init__.py", "reference.py"} <= found <= KERNEL_FILES for found in names.values()), names
    algorithms = {path.parent for path in KERNELS} - folders - shared
    assert {folder.name for folder in algorithms} <= {"cpu", "cuda"}, algorithms
    assert {folder.parent for folder in algorithms} <= folders, algorithms


def test_shared_kernel_code_imports_no_kernel() -> None:
    shared = [path for path in KERNELS if path.parent in (ROOT / "kernels/cpu", ROOT / "kernels/cuda")]
    own = [f"hpcai.kernels.{name}" for name in ("cpu", "cuda", "spec", "code_cache", "providers")]

    def above(path: Path) -> list[str]:
        return [name for name in imports(path) if is_within(name, ["hpcai.kernels"]) and not is_within(name, own)]

    assert not violations(shared, above)
