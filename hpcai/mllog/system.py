"""The system description of MLPerf submissions, as far as the program knows the machine; the rest is empty.

The fields are those that mlperf_logging's system_desc_checker asks for.
"""

import json
import platform

import torch

from hpcai.machine import device as devices
from hpcai.machine import processors
from hpcai.record.result import Result
from hpcai.results.cells import system_name

GIB = 2**30
# What no program can find out, or what is not asked of a node: to be filled in by hand.
UNKNOWN = (
    *("host_processor_interconnect", "host_storage_type", "host_storage_capacity"),
    *("host_networking", "host_networking_topology", "host_memory_configuration"),
    *("accelerator_host_interconnect", "accelerator_frequency", "accelerator_on-chip_memories"),
    *("accelerator_memory_configuration", "accelerator_interconnect", "accelerator_interconnect_topology"),
    *("cooling", "hw_notes", "sw_notes"),
)


def text(head: Result, device: torch.device) -> str:
    """The description as JSON, of the node of rank 0, whose device is given, and of the job's number of nodes."""
    found = {**_submission(head), **_host(head), **_accelerator(head, device), **_software(head)}
    return json.dumps({**found, **dict.fromkeys(UNKNOWN, "")}, indent=1) + "\n"


def _submission(head: Result) -> dict[str, str]:
    return {
        "submitter": head.input.headers[0],
        "division": "open",
        "status": "Research, Development, or Internal (RDI)",
        "system_name": system_name(head),
        "number_of_nodes": str(head.environment.nodes),
    }


def _host(head: Result) -> dict[str, str]:
    environment, (sockets, cores) = head.environment, processors.topology()
    hertz = processors.highest_frequency()
    caches = ", ".join(f"{count} x {cache}" for cache, count in processors.caches().items())
    return {
        "host_processors_per_node": str(sockets or ""),
        "host_processor_model_name": environment.processor,
        "host_processor_core_count": str(cores // sockets) if sockets else "",
        "host_processor_vcpu_count": str(environment.cpus // sockets) if sockets else "",
        "host_processor_frequency": f"{hertz / 1e6:.0f} MHz" if hertz else "",
        "host_processor_caches": caches,
        "host_memory_capacity": f"{environment.memory_bytes / GIB:.1f} GiB",
    }


def _accelerator(head: Result, device: torch.device) -> dict[str, str]:
    nbytes = devices.total_memory(device)
    return {
        "accelerators_per_node": str(head.environment.accelerators),
        "accelerator_model_name": devices.name(device) if nbytes else "",
        "accelerator_memory_capacity": f"{nbytes / GIB:.1f} GiB" if nbytes else "",
    }


def _software(head: Result) -> dict[str, str]:
    environment = head.environment
    others = {name: version for name, version in environment.packages.items() if name != "torch"}
    mpi = " ".join(environment.mpi.split())
    stack = [f"Python {environment.python}", mpi, *(f"{name} {value}" for name, value in others.items())]
    return {
        "framework": f"torch {environment.packages.get('torch', '')}".strip(),
        "other_software_stack": ", ".join(stack),
        "operating_system": f"{_distribution()} {environment.system}".strip(),
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""
