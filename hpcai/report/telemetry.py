"""Printed lines of telemetry: utilisation and memory of the nodes during a test."""

from collections.abc import Iterator

from hpcai.record.machine import MIB, Quantities, Telemetry
from hpcai.report.text import counted, score

NOT_SAMPLED = "n/a, not sampled"


def lines(seen: Telemetry | None, accelerated: bool) -> Iterator[str]:
    """Average utilisation of processors and GPUs."""
    average = seen.average if seen else Quantities(processors=None, memory_bytes=None, gpus=None, gpu_memory_bytes=None)
    unknown = "n/a, not reported" if seen else NOT_SAMPLED
    yield score("utilisation of the processors, average", average.processors, unknown)
    without = unknown if accelerated or not seen else "n/a, no GPU"
    yield score("utilisation of the GPUs, average", average.gpus, without)


def note(seen: Telemetry | None) -> str:
    """Averages and maxima over time and nodes, and the number of samples."""
    if not seen:
        return f"Telemetry: {NOT_SAMPLED}"
    parts = [*_quantities(seen.average, seen.maximum)]
    taken = f"{counted(seen.samples, 'sample')}, at most {seen.interval:.2f} s apart, of each of"
    return f"Telemetry: {'; '.join(parts)}; {taken} {counted(seen.nodes, 'node')}"


def _quantities(average: Quantities, maximum: Quantities) -> Iterator[str]:
    yield f"processors {_both(average.processors, maximum.processors, '{:.3f}', 1)}"
    yield f"memory of a node {_both(average.memory_bytes, maximum.memory_bytes, '{:.1f} MiB', MIB)}"
    yield f"GPUs {_both(average.gpus, maximum.gpus, '{:.3f}', 1)}"
    yield f"memory of a GPU {_both(average.gpu_memory_bytes, maximum.gpu_memory_bytes, '{:.1f} MiB', MIB)}"


def _both(average: float | None, maximum: float | None, form: str, unit: float) -> str:
    if average is None or maximum is None:
        return "n/a"
    return f"{form.format(average / unit)} on average, {form.format(maximum / unit)} at most"
