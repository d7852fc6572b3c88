"""Printed lines of telemetry: utilisation, memory and traffic of the nodes during a test."""

from collections.abc import Iterator

from hpcai.record.machine import MIB, Quantities, Telemetry
from hpcai.record.roofline import GB
from hpcai.report.text import counted, score

MOVED = {
    "received_between": "between nodes received",
    "sent_between": ", sent",
    "sent_within": "; within nodes, loopback",
    "received_nvlink": "; NVLink received",
    "sent_nvlink": ", sent",
}
NOT_SAMPLED = "n/a, not sampled"
UNKNOWN = Quantities(processors=None, memory_bytes=None, gpus=None, gpu_memory_bytes=None)
LINES = {
    "received_between": "received between nodes, of a node, GB/s",
    "sent_between": "sent between nodes, of a node, GB/s",
    "sent_within": "sent within a node by loopback, GB/s",
}


def lines(seen: Telemetry | None, accelerated: bool) -> Iterator[str]:
    """Average utilisation of processors and GPUs, and bytes per second between and within nodes."""
    average = seen.average if seen else UNKNOWN
    unknown = "n/a, not reported" if seen else NOT_SAMPLED
    yield score("utilisation of the processors, average", average.processors, unknown)
    without = unknown if accelerated or not seen else "n/a, no GPU"
    yield score("utilisation of the GPUs, average", average.gpus, without)
    for name, words in LINES.items():
        value = getattr(average, name)
        yield score(words, None if value is None else value / GB, unknown)


def traffic_note(seen: Telemetry | None, computed: float | None = None) -> Iterator[str]:
    """Bytes that all nodes moved during the test by their counters.

    computed: bytes that all ranks sent for gradients in the timed region; None where none were.
    """
    if not seen or not seen.series:
        return
    seconds = (seen.series[-1][0] or 0.0) * seen.nodes
    parts = [f"{words} {_total(getattr(seen.average, name), seconds)}" for name, words in MOVED.items()]
    sent = "" if computed is None else f"; computed for gradients, sent {computed / GB:.6f}"
    yield f"Traffic : GB by counters of the nodes: {''.join(parts)}{sent}"


def _total(rate: float | None, seconds: float) -> str:
    return "n/a" if rate is None else f"{rate * seconds / GB:.6f}"


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
