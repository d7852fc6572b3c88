"""Printed block of a test with HPL's row: header and row, a line per check, notes on data and network."""

from collections.abc import Iterator, Sequence

from hpcai.inputfile import Case
from hpcai.networks import DECODING
from hpcai.record.all_reduce import AllReduce, SentGradients
from hpcai.record.check_declarations import TRAINING_CHECKS
from hpcai.record.dataset import Dataset, Staging
from hpcai.record.entry import Row
from hpcai.record.machine import MIB
from hpcai.record.pipeline import Pipelined
from hpcai.record.preflight import NetworkCheck, PrecisionProbe, Residuals, SiteKernels, VendorComparison
from hpcai.record.record import fields
from hpcai.record.training import Replay
from hpcai.record.wall_time import Accounting
from hpcai.report.text import NAME_WIDTH, score
from hpcai.results.gains import emulated, precision_speed
from hpcai.results.row import graph_of
from hpcai.workloads.registry import quality_of, workload

LINE = "=" * 80
DASHES = "-" * 80
COLUMNS = "T/V                N    NB     P     Q               Time                 Gflops"
ABSENT = {check.name: check.absent for check in TRAINING_CHECKS}  # why a check has no value
INT8 = "; forward products of 8 bits by custom kernels, gradients in fp32; below 16 bits nothing is VALID"


def head(test: Row) -> str:
    """HPL's header and row."""
    return "\n".join([LINE, COLUMNS, DASHES, row(test), ""])


def row(test: Row) -> str:
    """The result row, in HPL's format; but from 10^11 samples on, N keeps a blank before it."""
    rate = f"{test.gflops:19.4e}" if test.gflops >= 1 else f"{test.gflops:19.6f}"
    grid = f"{test.nb:5d} {test.p:5d} {test.q:5d}"
    return f"{test.tv:<8} {test.n:11d} {grid} {test.seconds:18.2f}    {rate}"


def check_lines(test: Row) -> Iterator[str]:
    """A line per check, and whether the target was reached."""
    for check in test.checks:
        yield f"{score(check.name, check.value, ABSENT.get(check.name, 'n/a'))} ...... {check.verdict}"
    quality = quality_of(test.workload)
    name = f"quality({quality.name.replace('-', '')})/target"
    reached = "REACHED" if test.scores.reached else "MISSED"
    share = quality.share_of_target(test.scores.quality, test.scores.target)
    yield f"{name:>{NAME_WIDTH}}= {share:16.7f} ...... {reached}"


def lost_note(what: str, lost: Sequence[int], groups: int) -> Iterator[str]:
    """Note on groups that have lost a rank; what: models, or groups."""
    if lost:
        named = ", ".join(map(str, lost))
        yield f"{what:8}: {groups - len(lost)} of {groups} to the end; a rank was lost of group {named}"


def data_notes(section: str, data: Dataset, sharding: str, staging: Staging | None, covered: str) -> Iterator[str]:
    """Notes on dataset and sharding; `covered`: what the fingerprint of generated data covers."""
    samples = f"{data.training_samples} + {data.validation_samples} {workload(section).unit}"
    yield f"Data    : {data.name}, {samples}, sha256 {data.fingerprint}"
    if data.ceiling is not None:
        best = f"{data.ceiling:.6f}, standard error {data.ceiling_error or 0.0:.6f}"
        yield f"Ceiling : {best}; the sha256 is of {covered}"
    if staging:
        end = "kept after the run" if staging.kept else "removed at the end"
        yield (
            f"Staging : {staging.bytes} bytes copied, {staging.reused_bytes} bytes reused; "
            f"nodes: {staging.nodes}; {end}"
        )
    yield f"Sharding: {sharding}"


def network_note(test: Row, data: Dataset, what: str = "") -> str:
    """Note on network, resolution and operations."""
    graph, operations = graph_of(Case(test.index, test.workload, test.settings), data), test.operations
    _, height, width = graph.shapes[graph.layers[0].name]
    words = network_words(str(test.settings["NETWORK"]), str(test.settings["VARIANT"]), (height, width))
    return (
        f"Network : {what}{words}, "
        f"rule {operations.rule}: "
        f"{operations.per_sample} FLOP per sample, {operations.credited} credited"
    )


def network_words(network: str, variant: str, resolution: tuple[int, int]) -> str:
    """Network and rows x columns of a sample; a decoder has no variant, and its samples have bytes."""
    rows, columns = resolution
    return f"{network} at {columns} bytes" if network in DECODING else f"{network} {variant} at {rows}x{columns}"


def precision_note(precision: str, probe: PrecisionProbe | None) -> str:
    """Note on the precision: native or emulated, and its speed in the probe."""
    if probe is None:
        return f"Precision: {precision}"
    kind = "emulated" if emulated(probe) else "native"
    how = "; convolutions in fp32 from and to 16 bits" if probe.converted else ""
    speed = f"{precision_speed(probe) or 0.0:.2f} of the speed of fp32 in a probe"
    return f"Precision: {precision}, {kind} ({speed}{how}){INT8 if precision == 'int8' else ''}"


def all_reduce_note(found: AllReduce | None) -> Iterator[str]:
    """Note on the summation of gradients: path, ranks of its links, what else was tried."""
    if found is None:
        return
    links = " x ".join(f"{each.ranks} ({each.link})" for each in found.links)
    alone = [each.link for each in found.links if each.ranks == 1 < len(found.links)]
    text = f"Sums    : {found.algorithm} by {found.by}, ranks {links}"
    if alone:
        text += f"; nothing is sent by {' and '.join(alone)}"
    if found.ranks_per_node:
        text += f"; {found.ranks_per_node} ranks count as a node"
    yield text
    if found.compared:
        costs = ", ".join(
            f"{path.algorithm} by {path.by} {path.seconds * 1e3:.3f} + {path.processor * 1e3:.3f}"
            for path in found.compared
        )
        yield f"Sums    : a step's gradients before the clock, time + processor time per thread, in ms: {costs}"


def sent_note(sent: SentGradients | None) -> Iterator[str]:
    """Note on what a rank sent, link by link."""
    if sent:
        by_link = ", ".join(f"{nbytes:.0f} bytes by {name}" for name, nbytes in sent.bytes.items())
        yield f"Sent    : a step {by_link}; packing {sent.packing:.3f} s"


def stage_notes(found: Pipelined | None) -> Iterator[str]:
    """Note on each stage of a pipeline."""
    for number, stage in enumerate(found.stages if found else ()):
        yield (
            f"Stages  : stage {number}, {stage.operations / 1e9:.3f} GFLOP, busy for {stage.busy:.3f} s, in transfers "
            f"and waits for {stage.waiting:.3f} s, means of its ranks; "
            f"peak memory of a rank {stage.peak_bytes / MIB:.1f} MiB"
        )


def residual_notes(found: Residuals) -> Iterator[str]:
    """Notes on the products with the largest residuals."""
    for field in fields(Residuals):
        worst = getattr(found, field.name)
        if worst is not None:
            yield f"Residual: worst {field.name}: {worst.where}"


def network_notes(found: NetworkCheck | None) -> Iterator[str]:
    """Notes on what deviates most in the network before its first step."""
    for name in ("outputs", "weights") if found else ():
        worst = getattr(found, name)
        if worst is not None:
            yield f"{name.title():8}: worst: {worst.where}"


def kernels_notes(site: SiteKernels | None, compared: VendorComparison | None) -> Iterator[str]:
    """Notes on site kernels, and on the layers that deviate most from the vendor's."""
    if site:
        yield f"Kernels : {' and '.join(site.computes)} of a file, sha256 {site.sha256}; all others are custom"
    if compared:
        statistics = f", of statistics in {compared.statistics.where}" if compared.statistics else ""
        yield f"Vendor comparison: largest deviation of gradients in {compared.gradient.where}{statistics}"


def replay_notes(replay: Replay) -> Iterator[str]:
    """Notes on the replayed steps with the largest deviations."""
    yield f"Replay  : {replay.steps} steps, largest deviation: {replay.deviation.where}"
    yield f"Replay  : {replay.steps} steps, largest lost: {replay.lost.where}"
    if replay.inside_share is not None and replay.outside_share is not None:
        drawn = f", drawn from entropy {replay.audits.entropy}" if replay.audits else ""
        yield (
            f"Replay  : copies of steps {replay.inside_share:.2%} of the training time, checks beside it "
            f"{replay.outside_share:.1%}{drawn}"
        )


def accounting_notes(found: Accounting | None) -> Iterator[str]:
    """Note on the phases and the time between them; none in older results."""
    if found is not None:
        yield (
            f"Phases  : {found.phases:.3f} s and {found.between:.3f} s between them of {found.wall:.3f} s by a second "
            f"clock, {found.wall - found.phases - found.between:.3f} s not accounted for"
        )
