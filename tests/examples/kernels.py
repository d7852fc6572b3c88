"""Tables of `[kernels]`."""

from sample_kernel_rows import ENVIRONMENT, case_of, raw_of
from sample_records import MEMORY, TELEMETRY

from hpcai.inputfile import Case
from hpcai.results.claim import Subject
from hpcai.results.measured import Before, Measured
from hpcai.workloads.kernels.checks import build
from hpcai.workloads.kernels.record import KernelsRaw


def subject_of(case: Case, raw: KernelsRaw) -> Subject:
    """The table of a run on two ranks without GPUs."""
    return Subject(case, build(case, Measured(raw, MEMORY, TELEMETRY), Before()), ENVIRONMENT)


PLAIN, AUTOMATIC = case_of("resnet8", "64", "512"), case_of("auto")
EXAMPLES = {"": subject_of(PLAIN, raw_of(PLAIN)), "auto": subject_of(AUTOMATIC, raw_of(AUTOMATIC, 512, 1024))}
