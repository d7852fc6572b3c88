"""Claims about the memory of a test's ranks, for all workloads."""

from hpcai.record.machine import Memory
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject


def _memory(subject: Subject) -> Memory:
    memory: Memory = subject.entry.memory
    return memory


MEMORY = (
    Claim(
        "memory: accelerated if, and only if, the run has GPUs",
        lambda subject: _memory(subject).accelerated == (subject.environment.accelerators > 0),
        changed("memory.accelerated", True),
    ),
    Claim(
        "memory: device_peak_bytes only where the ranks compute on GPUs",
        lambda subject: _memory(subject).accelerated or _memory(subject).device_peak_bytes == 0,
        changed("memory.device_peak_bytes", 1),
    ),
    Claim(
        "memory: planned_bytes include the baseline, but on GPUs",
        lambda subject: (
            _memory(subject).accelerated or _memory(subject).planned_bytes > _memory(subject).baseline_bytes
        ),
        changed("memory.planned_bytes", 1),
    ),
)
