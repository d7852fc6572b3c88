"""Claims about precision probe, vendor comparison, site kernels and staging: which of them a test has, by its KEYs."""

from typing import Any

from hpcai.claims.training_claims import of_raw
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.kernels.providers import VENDOR
from hpcai.networks import DECODING, DETECTING
from hpcai.record.dataset import Staging
from hpcai.record.machine import DataFacts
from hpcai.record.preflight import VendorComparison
from hpcai.record.training import TrainingRaw
from hpcai.results.alterations import changed, together
from hpcai.results.claim import Claim, Subject

PREPARATION = "raw.preparation"  # where a training has what was measured before the clock started
CUSTOM, PROBED, STAGED = "custom", "bf16", "staged"  # examples
PROBE = {"fp32_seconds": 0.1, "seconds": 0.1, "converted": False}
STAGING = {"bytes": 8, "reused_bytes": 0, "nodes": 1, "seconds": 1.0, "kept": False}
SITE_KERNELS = {"sha256": "0" * 64, "computes": ["multiply"]}


def _prepared(subject: Subject) -> Any:
    """What was measured before the clock started: `preparation` of a training, `raw` itself of a search."""
    raw = subject.entry.raw
    return getattr(raw, "preparation", raw)


def _probed(subject: Subject) -> bool:
    """Whether the probe and its phase are both there, or neither."""
    probe, phase = _prepared(subject).probe, subject.entry.raw.phases.probe
    return (probe is None) == (phase is None) == (subject.case.precision == "fp32")


def _wrong_elements(subject: Subject) -> bool:
    counted = _prepared(subject).residuals.wrong is not None
    return counted == PRECISIONS[subject.case.precision].quantised


def _skipped_samples(case: Case, raw: TrainingRaw) -> bool:
    steps, replicas = raw.work.skipped_steps, case.split.replicas
    return steps * replicas <= raw.work.skipped_samples <= steps * replicas * case.replica_batch


def _converts(subject: Subject) -> bool:
    """Whether the first rank computes 16-bit convolutions in fp32."""
    data: DataFacts | None = subject.entry.memory.data
    return data is not None and data.converted


def _converted_where_reported(subject: Subject) -> bool:
    probe = subject.entry.raw.preparation.probe
    if probe is None:
        return True
    one_node = subject.environment.nodes == 1
    return bool(probe.converted == _converts(subject) if one_node else probe.converted or not _converts(subject))


def _no_gpu_converts(subject: Subject) -> bool:
    probe = subject.entry.raw.preparation.probe
    return not (probe and probe.converted and subject.entry.memory.accelerated)


def precision_claims(where: str) -> tuple[Claim, ...]:
    """What a test by another precision than fp32 has; `where` it stands in the entry."""
    return (
        Claim("probe if, and only if, PRECISION is not fp32", _probed, changed(f"{where}.probe", PROBE)),
        Claim(
            "wrong elements: counted in int8 only",
            _wrong_elements,
            changed(f"{where}.residuals.wrong", {"value": 0, "where": "gemm"}),
        ),
    )


PRECISION = (
    *precision_claims(PREPARATION),
    Claim(
        "skipped_steps: with a loss scale only",
        of_raw(lambda case, raw: raw.work.skipped_steps == 0 or PRECISIONS[case.precision].scaled),
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
        "memory.data: converted products of 16 bits only",
        lambda subject: PRECISIONS[subject.case.precision].rounded or not _converts(subject),
        changed("memory.data.converted", True),
    ),
    Claim(
        "probe: converted where the ranks convert",
        _converted_where_reported,
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


def _compared(subject: Subject) -> bool:
    """Whether the comparison and its phase are both there, or neither."""
    comparison, phase = _prepared(subject).vendor_comparison, subject.entry.raw.phases.vendor_comparison
    return (comparison is None) == (phase is None) == (subject.case.kernels == VENDOR)


def _comparison(subject: Subject) -> VendorComparison | None:
    comparison: VendorComparison | None = _prepared(subject).vendor_comparison
    return comparison


def _rounds(subject: Subject) -> bool:
    found = _comparison(subject)
    parts = (found.losses, found.evaluated, found.gradient, found.statistics) if found else ()
    normalises = subject.case.network not in DECODING
    return all(part is None or part.rounding > 0 for part in parts) and (
        found is None or (found.statistics is not None) == normalises
    )


def _site_kernels(subject: Subject) -> bool:
    return (subject.entry.raw.site_kernels is not None) == bool(subject.case.kernels_file)


def kernels_claims(where: str, classifies: bool) -> tuple[Claim, ...]:
    """The comparison of other kernels with the vendor's; `where` it stands in the entry.

    classifies: the loss in evaluation is compared, which only classifiers have.
    """
    place = f"{where}.vendor_comparison"
    other = None if classifies else {"custom": [0.9], "vendor": [0.90001], "rounding": 1e-5}

    def evaluated(subject: Subject) -> bool:
        comparison = _comparison(subject)
        return comparison is None or (comparison.evaluated is not None) == classifies

    return (
        Claim(
            "vendor_comparison if, and only if, KERNELS is not vendor",
            _compared,
            changed("raw.phases.vendor_comparison", 1.0),
        ),
        Claim(
            "vendor_comparison: altered weights change all that is compared",
            _rounds,
            changed(f"{place}.gradient.rounding", 0.0),
            CUSTOM,
        ),
        Claim(
            f"vendor_comparison: {'a' if classifies else 'no'} loss in evaluation",
            evaluated,
            changed(f"{place}.evaluated", other),
            CUSTOM,
        ),
        Claim(
            "site_kernels if, and only if, KERNELS names a file",
            _site_kernels,
            changed("raw.site_kernels", SITE_KERNELS),
        ),
    )


def _network_compared(subject: Subject) -> bool:
    """Older results do not say; a large detector may have too many layers."""
    found = _prepared(subject).network_check
    divided = subject.case.split.parts > 1
    free = found is None or (subject.case.network in DETECTING and not divided)
    return free or (found.outputs is None) == divided


def network_claims(where: str) -> tuple[Claim, ...]:
    """The comparison of the network before its first step; `where` it stands in the entry."""
    return (
        Claim(
            "network_check: outputs unless models are divided",
            _network_compared,
            changed(f"{where}.network_check", {"weights": {"value": 1.0, "where": "dense.weight"}, "outputs": None}),
        ),
    )


def _staged(subject: Subject) -> bool:
    raw = subject.entry.raw
    return (raw.staging is None) == (raw.phases.staging is None) == (subject.case.stage == "none")


def _copy(subject: Subject) -> Staging | None:
    copy: Staging | None = subject.entry.raw.staging
    return copy


def _kept(subject: Subject) -> bool:
    copy = _copy(subject)
    return copy is None or copy.kept == (subject.case.stage == "keep")


def _reused(subject: Subject) -> bool:
    copy = _copy(subject)
    return copy is None or copy.reused_bytes == 0 or copy.kept


def _nodes(subject: Subject) -> bool:
    copy, ranks = _copy(subject), subject.case.groups * subject.case.degree
    return copy is None or bool(1 <= copy.nodes <= min(ranks, subject.environment.nodes))


def _seconds(subject: Subject) -> bool:
    copy = _copy(subject)
    return copy is None or copy.seconds == subject.entry.raw.phases.staging


def _same_on_every_node(subject: Subject) -> bool:
    copy = _copy(subject)
    return copy is None or subject.case.groups > 1 or (copy.bytes + copy.reused_bytes) % copy.nodes == 0


STAGE = (
    Claim("staging if, and only if, STAGE is not none", _staged, changed("raw.staging", STAGING)),
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
