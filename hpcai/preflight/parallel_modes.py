"""What PARALLEL cannot be combined with, and why."""

from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.inputfile.split import DATA, LEAST_SAMPLES
from hpcai.results.kernel_choice import AUTO
from hpcai.workloads.registry import workload


def parallel_refusal(case: Case) -> str:
    """Why a case cannot divide its model as PARALLEL says; empty if it can."""
    if case.parallel == DATA:
        return ""
    reason = _reason(case)
    return f"PARALLEL {case.parallel} with {reason}" if reason else ""


def _reason(case: Case) -> str:
    compiled, divided, samples = case.settings.get("COMPILE", "off"), case.split, case.replica_batch
    if divided.ranks != case.degree:
        return f"SPLIT {case['SPLIT']}: {divided.ranks} ranks, DEGREE is {case.degree}; allowed: a product of DEGREE"
    if divided.stages > 1 and (samples % case.chunks or samples < LEAST_SAMPLES * case.chunks):
        allowed = f"divisors of {samples} up to {samples // LEAST_SAMPLES}"
        return f"CHUNKS {case.chunks}: a replica has {samples} samples a step; allowed: {allowed}"
    if not workload(case.workload).divides:
        return f"[{case.workload}]: its networks are not divided; allowed: PARALLEL data"
    if divided.shards > 1 and PRECISIONS[case.precision].quantised:
        return f"PRECISION {case.precision}: bytes have one scale a tensor, shards have parts of it; allowed: others"
    if divided.stages > 1 and case.kernels == AUTO:
        return "KERNELS auto: layers are timed in a step of the whole network; allowed: vendor, custom, file:PATH"
    if compiled != "off":
        return f"COMPILE {compiled}: layers wait for other ranks; allowed: COMPILE off"
    return ""
