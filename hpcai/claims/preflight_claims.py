"""Claims about precision probe, vendor comparison, site kernels and staging: which of them a test has, by its KEYs."""

from hpcai.claims.training_claims import of_raw
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.kernels.providers import VENDOR
from hpcai.record.dataset import Staging
from hpcai.record.machine import DataFacts
from hpcai.record.preflight import VendorComparison
from hpcai.record.training import TrainingRaw
from hpcai.results.alterations import changed, together
from hpcai.results.claim import Claim, Subject

CUSTOM, PROBED, STAGED = "custom", "bf16", "staged"  # examples
PROBE = {"fp32_seconds": 0.1, "seconds": 0.1, "converted": False}
STAGING = {"bytes": 8, "reused_bytes": 0, "nodes": 1, "seconds": 1.0, "kept": False}
SITE_KERNELS = {"sha256": "0" * 64, "computes": ["multiply"]}


def _probed(case: Case, raw: TrainingRaw) -> bool:
    probe, phase = raw.preparation.probe, raw.phases.probe
    return (probe is None) == (phase is None) == (case["PRECISION"] == "fp32")


def _skipped_samples(case: Case, raw: TrainingRaw) -> bool:
    steps, ranks = raw.work.skipped_steps, case["DEGREE"]
    return bool(steps * ranks <= raw.work.skipped_samples <= steps * ranks * case["BATCH"])


def _converts(subject: Subject) -> bool:
    """Whether the first rank computes 16-bit convolutions in fp32."""
    data: DataFacts | None = subject.entry.memory.data
    return data is not None and data.converted


def _converted_where_told(subject: Subject) -> bool:
    probe = subject.entry.raw.preparation.probe
    if probe is None:
        return True
    one_node = subject.environment.nodes == 1
    return bool(probe.converted == _converts(subject) if one_node else probe.converted or not _converts(subject))


def _no_gpu_converts(subject: Subject) -> bool:
    probe = subject.entry.raw.preparation.probe
    return not (probe and probe.converted and subject.entry.memory.accelerated)


PRECISION = (
    Claim(
        "probe if, and only if, PRECISION is not fp32",
        of_raw(_probed),
        changed("raw.preparation.probe", PROBE),
    ),
    Claim(
        "skipped_steps: in fp16 only",
        of_raw(lambda case, raw: raw.work.skipped_steps == 0 or PRECISIONS[case["PRECISION"]].scaled),
        changed("raw.work.skipped_steps", 1),
    ),
    Claim(
        "skipped_steps <= steps",
        of_raw(lambda case, raw: raw.work.skipped_steps <= raw.work.steps),
        changed("raw.work.skipped_steps", 10**6),
    ),
    Claim(
        "skipped_samples: those of skipped_steps",
        of_raw(_skipped_samples),
        changed("raw.work.skipped_samples", 1),
    ),
    Claim(
        "wrong elements: counted in int8 only",
        of_raw(
            lambda case, raw: (raw.preparation.residuals.wrong is not None) == PRECISIONS[case["PRECISION"]].quantised
        ),
        changed("raw.preparation.residuals.wrong", {"value": 0, "where": "gemm"}),
    ),
    Claim(
        "memory.data: converted products of 16 bits only",
        lambda subject: PRECISIONS[subject.case["PRECISION"]].rounded or not _converts(subject),
        changed("memory.data.converted", True),
    ),
    Claim(
        "probe: converted where the ranks convert",
        _converted_where_told,
        changed("memory.data.converted", True),
        PROBED,
    ),
    Claim(
        "probe: no GPU converts",
        _no_gpu_converts,
        together(changed("raw.preparation.probe.converted", True), changed("memory.accelerated", True)),
        PROBED,
    ),
)


def _compared(case: Case, raw: TrainingRaw) -> bool:
    """A comparison and its phase: both or none."""
    comparison, phase = raw.preparation.vendor_comparison, raw.phases.vendor_comparison
    return (comparison is None) == (phase is None) == (case["KERNELS"] == VENDOR)


def _rounds(comparison: VendorComparison) -> bool:
    parts = (comparison.losses, comparison.evaluated, comparison.gradient, comparison.statistics)
    return all(part is None or part.rounding > 0 for part in parts)


KERNELS = (
    Claim(
        "vendor_comparison if, and only if, KERNELS is not vendor",
        of_raw(_compared),
        changed("raw.phases.vendor_comparison", 1.0),
    ),
    Claim(
        "vendor_comparison: altered weights change all that is compared",
        of_raw(
            lambda case, raw: (
                raw.preparation.vendor_comparison is None or _rounds(raw.preparation.vendor_comparison)
            ),
        ),
        changed("raw.preparation.vendor_comparison.gradient.rounding", 0.0),
        CUSTOM,
    ),
    Claim(
        "site_kernels if, and only if, KERNELS names a file",
        of_raw(lambda case, raw: (raw.site_kernels is not None) == bool(case.kernels_file)),
        changed("raw.site_kernels", SITE_KERNELS),
    ),
)


def evaluated_claim(classifies: bool) -> Claim:
    """The evaluation loss is compared for classifiers only."""

    def holds(case: Case, raw: TrainingRaw) -> bool:
        comparison = raw.preparation.vendor_comparison
        return comparison is None or (comparison.evaluated is not None) == classifies

    other = None if classifies else {"custom": [0.9], "vendor": [0.90001], "rounding": 1e-5}
    path = "raw.preparation.vendor_comparison.evaluated"
    text = f"vendor_comparison: {'a' if classifies else 'no'} loss in evaluation"
    return Claim(text, of_raw(holds), changed(path, other), CUSTOM)


def _staged(case: Case, raw: TrainingRaw) -> bool:
    return (raw.staging is None) == (raw.phases.staging is None) == (case["STAGE"] == "none")


def _copy(subject: Subject) -> Staging | None:
    copy: Staging | None = subject.entry.raw.staging
    return copy


def _kept(subject: Subject) -> bool:
    copy = _copy(subject)
    return copy is None or copy.kept == (subject.case["STAGE"] == "keep")


def _reused(subject: Subject) -> bool:
    copy = _copy(subject)
    return copy is None or copy.reused_bytes == 0 or copy.kept


def _nodes(subject: Subject) -> bool:
    copy, ranks = _copy(subject), subject.case["GROUPS"] * subject.case["DEGREE"]
    return copy is None or bool(1 <= copy.nodes <= min(ranks, subject.environment.nodes))


def _seconds(subject: Subject) -> bool:
    copy = _copy(subject)
    return copy is None or copy.seconds == subject.entry.raw.phases.staging


def _same_on_every_node(subject: Subject) -> bool:
    copy = _copy(subject)
    return copy is None or subject.case["GROUPS"] > 1 or (copy.bytes + copy.reused_bytes) % copy.nodes == 0


STAGE = (
    Claim("staging if, and only if, STAGE is not none", of_raw(_staged), changed("raw.staging", STAGING)),
    Claim("staging: kept if, and only if, STAGE is keep", _kept, changed("raw.staging.kept", True), STAGED),
    Claim("staging: only a kept copy is used again", _reused, changed("raw.staging.reused_bytes", 2), STAGED),
    Claim("staging: on nodes of the job", _nodes, changed("raw.staging.nodes", 2), STAGED),
    Claim("staging: phase = seconds", _seconds, changed("raw.phases.staging", 0.25), STAGED),
    Claim(
        "staging: one model needs the same bytes on every node",
        _same_on_every_node,
        together(changed("raw.staging.nodes", 2), changed("raw.staging.bytes", 7)),
        STAGED,
    ),
)
