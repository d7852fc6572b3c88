"""Records of the machine: memory of the ranks, telemetry of the nodes, the environment and the listed ranks."""

from typing import Annotated

from msgspec import Meta, field

from hpcai.record.library_variables import MOST, VariableName, VariableValue
from hpcai.record.record import END, Count, Name, NonNegative, Positive, Record, Seconds, about

KEPT_SAMPLES = 200
MOST_NODES = 64  # whose own samples are kept
MIB = 2**20


class DataFacts(Record, kw_only=True):
    """What the planned memory of a training depends on, beside its settings and network."""

    data_bytes: Annotated[Count, about("dataset bytes that a rank keeps in memory", unit="B")]
    samples: Annotated[Count, about("training samples")]
    image_bytes: Annotated[Count, about("one image or frame as it is read", unit="B")]
    converted: Annotated[bool, about("whether 16-bit convolutions are computed in fp32")]


class Memory(Record, kw_only=True):
    """Memory of the rank that used most during a test."""

    peak_bytes: Annotated[
        Positive, about("peak resident memory during the test", unit="B", label="peak memory of a rank, MiB", scale=MIB)
    ]
    baseline_bytes: Annotated[
        Positive,
        about(
            "resident memory before the first test: process and libraries",
            unit="B",
            label="baseline: process and libraries, MiB",
            scale=MIB,
        ),
    ]
    device_peak_bytes: Annotated[Count, about("peak memory that torch held on the GPU; 0 on CPUs", unit="B")]
    planned_bytes: Annotated[Count, about("memory that the plan (--plan) estimates for this rank", unit="B")]
    whole_run: Annotated[bool, about("whether the peak is that of the run so far, because the kernel cannot reset it")]
    accelerated: Annotated[bool, about("whether the ranks compute on GPUs")]
    data: Annotated[DataFacts | None, about("tests that train: what the plan depends on")] = None


Share = Annotated[float, Meta(ge=0, le=1)]


class Quantities(Record, kw_only=True):
    """Quantities of a node; null where the system does not report one."""

    processors: Annotated[Share | None, about("share of the processors' time in use")]
    memory_bytes: Annotated[NonNegative | None, about("memory in use on the node", unit="B")]
    gpus: Annotated[Share | None, about("share of time in which a GPU ran a kernel (NVML), mean of the GPUs")]
    gpu_memory_bytes: Annotated[NonNegative | None, about("memory in use on a GPU (NVML), mean of the GPUs", unit="B")]
    received_between: Annotated[
        NonNegative | None, about("received by the network interfaces and InfiniBand ports of a node", unit="B/s")
    ] = None
    sent_between: Annotated[NonNegative | None, about("sent by the same", unit="B/s")] = None
    sent_within: Annotated[
        NonNegative | None, about("sent, and so received, by the loopback interface of a node", unit="B/s")
    ] = None
    received_nvlink: Annotated[NonNegative | None, about("received by NVLink (NVML), sum of the GPUs", unit="B/s")] = (
        None
    )
    sent_nvlink: Annotated[NonNegative | None, about("sent by NVLink (NVML), sum of the GPUs", unit="B/s")] = None


QUANTITIES = Quantities.__struct_fields__
TRAFFIC = QUANTITIES[4:]  # bytes per second
OF_NODE = "seconds, then the quantities in the order of `average`"
Values = Annotated[tuple[float | None, ...], Meta(min_length=len(QUANTITIES), max_length=len(QUANTITIES))]
Sample = Annotated[tuple[float | None, ...], Meta(min_length=len(QUANTITIES) + 1, max_length=len(QUANTITIES) + 1)]
Series = Annotated[tuple[Sample, ...], Meta(max_length=KEPT_SAMPLES)]
AtTimes = Annotated[tuple[Values, ...], Meta(max_length=KEPT_SAMPLES)]


class OverNodes(Record, kw_only=True):
    """All nodes of the grid at common times: their samples, averaged over equal intervals."""

    seconds: Annotated[
        tuple[Seconds, ...], Meta(max_length=KEPT_SAMPLES), about("ends of the intervals since the start", unit="s")
    ]
    mean: Annotated[AtTimes, about("mean over the nodes of each quantity, in the order of `average`")]
    least: Annotated[AtTimes, about("the same of the node with the least")]
    most: Annotated[AtTimes, about("the same of the node with the most")]


class NodeSeries(Record, kw_only=True):
    """Samples of one node."""

    host: Annotated[Name, about("host name")]
    series: Annotated[Series, about(f"its samples: {OF_NODE}")]


class Telemetry(Record, kw_only=True):
    """What the nodes of a test's grid did during the test; of a table all nodes of the job."""

    nodes: Annotated[Positive, about("nodes that were sampled")]
    samples: Annotated[Count, about("samples taken on the first node")]
    interval: Annotated[Seconds, about("longest time between two samples of the first node", unit="s")]
    average: Annotated[Quantities, about("means over time and nodes")]
    maximum: Annotated[Quantities, about("maxima over time and nodes")]
    series: Annotated[Series, about(f"samples of the first node, that of rank 0: {OF_NODE}")]
    over_nodes: Annotated[
        OverNodes | None, about("all nodes over time; null of one node, whose samples are `series`")
    ] = None
    further: Annotated[
        tuple[NodeSeries, ...],
        Meta(max_length=MOST_NODES - 1),
        about(f"samples of the other nodes, of {MOST_NODES} nodes at most; else empty"),
    ] = ()


class Rank(Record, kw_only=True):
    """One rank of the job."""

    rank: Annotated[Count, about("number of the rank")]
    groups: Annotated[tuple[Count | None, ...], about("group of the rank in each grid; null where it is idle")]
    host: Annotated[Name, about("host name")]
    interface: Annotated[
        Name | None, about("network interface by which other nodes reach the rank's; null of one node, or without one")
    ] = None
    address: Annotated[Name | None, about("its IPv4 address")] = None
    device: Annotated[Name, about("torch's name of the device")]
    cpus: Annotated[Name, about("CPUs of the affinity set, as ranges")]
    threads: Annotated[Positive, about("threads of torch and of the custom kernels")]


class Environment(Record, kw_only=True):
    """The machine and software of a run, as rank 0 and sums over all ranks report them."""

    ranks: Annotated[Positive, about("ranks of the job")]
    nodes: Annotated[Positive, about("nodes of the job")]
    accelerators: Annotated[Count, about("GPUs that the ranks of a node use, on the node with fewest")]
    processor: Annotated[Name, about("model of the processor")]
    cpus: Annotated[Positive, about("CPUs of the node of rank 0")]
    memory_bytes: Annotated[Positive, about("memory of the node of rank 0", unit="B")]
    device: Annotated[Name, about("device of rank 0")]
    system: Annotated[Name, about("operating system and kernel")]
    python: Annotated[Name, about("version of Python")]
    mpi: Annotated[Name, about("version string of the MPI library")]
    packages: Annotated[dict[str, Name], about("versions of packages and libraries")]
    grids: Annotated[tuple[Name, ...], about("process grids of the tests")]
    idle: Annotated[tuple[str, ...], about("ranks that a grid leaves idle")]
    warnings: Annotated[tuple[str, ...], about("conditions that slow the run down, such as shared processors")]
    variables: Annotated[
        dict[VariableName, VariableValue],
        Meta(max_length=MOST),
        about("environment variables of rank 0 that configure libraries, as the user gave them"),
    ] = field(default_factory=dict)
    source_sha256: Annotated[
        str, Meta(pattern=f"^([0-9a-f]{{64}})?{END}"), about("SHA-256 of the program's source; empty if not recorded")
    ] = ""
