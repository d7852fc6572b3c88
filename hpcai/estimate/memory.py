"""Memory estimate of one rank in one test, by purpose."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from typing import Any

from hpcai.estimate.exchanged import crossing_bytes, exchange_bytes, replayed_exchange_bytes, tied_bytes
from hpcai.estimate.liveness import (
    FP32_BYTES,
    INDEX_BYTES,
    Storage,
    running_statistics,
    saved_bytes,
    step_bytes,
)
from hpcai.estimate.residuals import FP64_BYTES, residual_bytes
from hpcai.formulas.audits import at_once
from hpcai.formulas.precision import PRECISIONS
from hpcai.gradients.reductions import REDUCTIONS, algorithms
from hpcai.gradients.wires import WIRES
from hpcai.inputfile.split import chunks_of, cut_of, split_of
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Conv, Dense
from hpcai.networks.sequences import CausalAttention
from hpcai.opcount.stages import parts_of
from hpcai.update_rules import rule_of
from hpcai.update_rules.rule import UpdateRule

MIB = 2**20
BATCHES_AHEAD = 4  # in the queue, in preparation, just taken
BATCHES_BEHIND = 3  # additional on a GPU: batches submitted ahead of execution (hpcai.data.transfer)
# What malloc adds where large blocks of many sizes come and go, with small ones between them, as shares of the step's
# own bytes: 1.3 to 1.45 in training, 0.45 more under the profiler (benchmarks/memory.py, glibc 2.36). On a GPU the
# first stands for what torch's own allocator wastes and cuDNN takes to work in, of which nothing was measured yet.
FRAGMENTATION, PROFILED_FRAGMENTATION = 1.5, 0.6
PROFILED_LAYER = MIB // 4  # bytes of the profiler's records for a layer's operators
PROFILED_AGAIN = MIB // 10  # for each further micro-batch
PROFILED_BLOCK = 7 * MIB // 4  # and of a decoder's block: 600 operators in 10 layers, where a ResNet's have 17 each
# Bytes of Python and torch: hooks, autograd nodes, oneDNN kernels; of the data's second reader and the verification of
# files, which leave 10 to 14 MiB in pieces.
SMALL_OBJECTS = 38 * MIB
NETWORKED = 13 * MIB  # threads, sockets and staging of a group that sums gradients, or of the parts of a replica
NCCL = 256 * MIB  # its channels, on a GPU
BUCKET = 2 * 25 * MIB // FP32_BYTES  # gradients summed at once: a bucket of torch exceeds 25 MiB by a layer's weights
THREAD = 4 * MIB  # machine code of packing, and a thread
LIBRARIES = 128 * MIB  # workspace of cuBLAS, and torch's rounding
# Purposes that alternate: checks run before training, the replay when no step runs.
CHECKS, REPLAY = ("residuals",), ("replay",)
STEPS = ("snapshot", "batches")
AFTER_STEPS = ("profile", "restoring")  # the snapshot is restored after the profile
TRAINING = ("optimiser", "buckets", "exchange", "step")  # malloc keeps what a step frees, in pieces, while none runs
CHECKED = {False: 1, True: 2}  # factor on the residuals' memory: int8 checks also hold the integer sums
# float64 vectors as large as the largest tensor: of a replayed step, and of its comparison.
COMPARED_VECTORS, VECTORS_OF_STATE = 21, 6  # with at most one state tensor, and more for each further one
REPLAY_FRAGMENTATION = 1.1  # of these: 0.9 to 1.1, by chance
SUMMED, SUMMED_BYTES = 2**20, 48  # elements of the check of the all-reduce at a time, and bytes of each
# Of the pass that shows whether a precision is native (preflight/precision_probe.py): FLOP forward on a CPU and a GPU,
# far longer than a launch; bytes of its input and output in fp32; tensors of it that are kept.
PROBED_OPERATIONS, PROBED_BYTES, PROBED_COPIES = {False: 2**29, True: 2**38}, 2**26, 6
TENSORS_OF_LAYER = 2  # weight and bias, or those of a batch norm
STEP_TIMES = 3  # as recorded, of all epochs, and sorted


@dataclass(frozen=True)
class Facts:
    """Properties of a test, besides its settings, on which its memory depends; sizes in bytes.

    `data_bytes`: the dataset in memory; `image_bytes`: a stored image. `samples`: training samples of an epoch.
    `converted`: 16-bit convolutions are computed in fp32. `accelerated`: all but the dataset, the sample records and
    the copies of checkpoints is on a GPU. `checkpoints`: whether there are any.
    """

    data_bytes: int
    samples: int
    image_bytes: int
    converted: bool = False
    accelerated: bool = False
    checkpoints: bool = False


def memory(graph: Graph, settings: Mapping[str, Any], facts: Facts) -> dict[str, int]:
    """Bytes of one rank of a test by purpose, without process and libraries (the baseline); of the stage with most.

    On a GPU, bytes of the GPU, without the dataset. Not all purposes need memory at the same time: see `total`.
    """
    cut = cut_of(settings)
    stages = parts_of(graph, cut, cut.shards - 1)  # no other shard has more channels
    needed = (
        _of_stage(graph, stage.graph, cut.stages - number, settings, facts) for number, stage in enumerate(stages)
    )
    return max(needed, key=total)


def _of_stage(whole: Graph, graph: Graph, forward: int, settings: Mapping[str, Any], facts: Facts) -> dict[str, int]:
    """Bytes of a rank of the stage that computes `graph`, forward for so many micro-batches before the first backward.

    The network without stages is a stage with one micro-batch.
    """
    precision = PRECISIONS[settings["PRECISION"]]
    activation, parameter, rounded = precision.activation_bytes, precision.weight_bytes, precision.quantised
    divided, chunks = split_of(settings), chunks_of(settings)
    replicas, samples = divided.replicas, settings["BATCH"] * divided.parts
    batch = samples // chunks
    parameters = sum(graph.parameters.values())
    weights = parameters * parameter + running_statistics(graph) * FP32_BYTES
    anew = replicas == 1 and chunks == 1  # gradients that a backward pass makes anew; else they are added up
    storage = Storage(activation, parameter, facts.converted, anew, rounded, _widened(settings, facts))
    step, checked = step_bytes(graph, batch, storage), CHECKED[rounded] * residual_bytes(graph, batch)
    step += (min(forward, chunks) - 1) * saved_bytes(graph, batch, storage)
    step += min(forward, chunks) * crossing_bytes(graph, batch, activation) + parameters * parameter * (chunks > 1)
    rule, on_gpu = rule_of(settings), facts.accelerated
    state = parameters * rule.state_bytes(parameter)
    captured = settings.get("COMPILE") == "graphs"  # the two graphs keep the memory of their capture
    return {
        "data": 0 if on_gpu else facts.data_bytes,
        "samples": 0 if on_gpu else _sample_records(settings, facts.samples),
        "weights": weights,
        "optimiser": state + parameters * rule.scratch_bytes("cuda" if on_gpu else "cpu", parameter),
        "replay copies": _audited(settings, 2 * (weights + state)),
        "fingerprints": _steps(settings, facts.samples) * TENSORS_OF_LAYER * len(graph.parameters) * FP64_BYTES,
        "snapshot": weights + state,
        "checkpoint": (weights + state + _carried(settings, parameters)) * (facts.checkpoints and not on_gpu),
        "buckets": _buckets(settings, parameters, parameter, on_gpu) * (replicas > 1),
        "exchange": exchange_bytes(graph, batch, activation)
        + tied_bytes(whole, graph, parameter)
        + _connections(on_gpu) * ((divided.shards > 1) + (divided.stages > 1)),
        "batches": _batches(whole, samples, facts),
        "step": round(FRAGMENTATION * step) + step * captured,
        "replay": parameters * parameter
        + max(
            round(FRAGMENTATION * replayed_exchange_bytes(graph, batch)),
            _compared_bytes(rule, max(graph.parameters.values())),
        ),
        "residuals": max(checked, _summed(parameters, replicas), _probed(graph, settings, facts)),
        "profile": 0 if on_gpu else round(PROFILED_FRAGMENTATION * step) + _profiled(graph, chunks),
        "restoring": state,
        "other": LIBRARIES if on_gpu else SMALL_OBJECTS,
    }


def _widened(settings: Mapping[str, Any], facts: Facts) -> bool:
    """Whether custom kernels of a CPU compute attention and dense layers of 16 bits, in fp32."""
    of_16_bits = PRECISIONS[settings["PRECISION"]].activation_bytes < FP32_BYTES
    return of_16_bits and not facts.accelerated and settings.get("KERNELS", "vendor") != "vendor"


def total(rows: Mapping[str, int]) -> int:
    """Peak bytes: of the checks, or of training with a step's snapshot and profile or with the replay.

    All other purposes need their memory all the time.
    """
    checks, replay, steps, training = (
        sum(rows.get(name, 0) for name in names) for names in (CHECKS, REPLAY, STEPS, TRAINING)
    )
    after = [rows.get(name, 0) for name in AFTER_STEPS]
    stays = sum(rows.values()) - checks - replay - steps - training - sum(after)
    return stays + max(checks, training + max(steps + max(after), replay))


def _batches(graph: Graph, batch: int, facts: Facts) -> int:
    """Images loaded ahead, as bytes and on a CPU also normalised, and the step's own, rescaled if asked for."""
    pixels, image = prod(graph.shapes[graph.layers[0].name]), facts.image_bytes
    ahead = INDEX_BYTES + image + (0 if facts.accelerated else min(image, pixels) * FP32_BYTES)
    scaled, batches = 1 + (image != pixels), BATCHES_AHEAD + BATCHES_BEHIND * facts.accelerated
    return batch * (batches * ahead + (1 + scaled) * pixels * FP32_BYTES)


def _audited(settings: Mapping[str, Any], copies: int) -> int:
    """Copies of an epoch's audited steps, from those of one; of one only where errors of sent gradients are kept."""
    kept = WIRES[settings["WIRE"]]().carries and split_of(settings).replicas > 1
    return copies if kept else copies * at_once(copies)


def _steps(settings: Mapping[str, Any], samples: int) -> int:
    """Steps of an epoch."""
    divided = split_of(settings)
    return ceil(samples / (divided.replicas * settings["BATCH"] * divided.parts))


def _sample_records(settings: Mapping[str, Any], samples: int) -> int:
    """Records of delivered samples, of a bootstrap's draws, and of step times."""
    own, steps = ceil(samples / split_of(settings).replicas), _steps(settings, samples) * settings["EPOCHS"]
    return INDEX_BYTES * own + samples * (settings["GROUPS"] > 1) + STEP_TIMES * FP64_BYTES * steps


def _buckets(settings: Mapping[str, Any], parameters: int, parameter: int, on_gpu: bool) -> int:
    """Gradient buckets, errors carried to the next step, memory of their summation, and connections of the group."""
    wire, replicas = WIRES[settings["WIRE"]](), split_of(settings).replicas
    at_once = min(parameters, BUCKET)
    buffers = max(REDUCTIONS[name]().buffer_bytes(at_once, replicas) for name in algorithms(settings["ALLREDUCE"]))
    buffers += wire.buffer_bytes(at_once) + wire.carried_bytes(parameters)
    if not wire.plain or settings["ALLREDUCE"] != "flat":
        buffers += FP32_BYTES * at_once * (1 + (parameter != FP32_BYTES)) + THREAD  # tried, and converted to fp32
    return parameters * parameter + buffers + _connections(on_gpu)


def _carried(settings: Mapping[str, Any], parameters: int) -> int:
    """Errors of sent gradients that are carried to the next step."""
    return WIRES[settings["WIRE"]]().carried_bytes(parameters) * (split_of(settings).replicas > 1)


def _profiled(graph: Graph, chunks: int) -> int:
    """Records of a step of so many micro-batches."""
    layers, blocks = len(graph.layers), sum(isinstance(layer.op, CausalAttention) for layer in graph.layers)
    return layers * PROFILED_LAYER + (chunks - 1) * (layers * PROFILED_AGAIN + blocks * PROFILED_BLOCK)


def _connections(on_gpu: bool) -> int:
    """Of a rank's group, by torch's backend."""
    return NCCL if on_gpu else NETWORKED


def _compared_bytes(rule: UpdateRule, largest: int) -> int:
    """Of the comparison of a tensor of so many elements."""
    vectors = COMPARED_VECTORS + VECTORS_OF_STATE * max(0, len(rule.state) - 1)
    return round(REPLAY_FRAGMENTATION * vectors * FP64_BYTES * largest)


def _summed(parameters: int, replicas: int) -> int:
    return SUMMED_BYTES * min(parameters, SUMMED) * (replicas > 1)


def _probed(graph: Graph, settings: Mapping[str, Any], facts: Facts) -> int:
    """The precision probe: its heaviest layer, with enough images for a measurable pass."""
    if settings["PRECISION"] == "fp32":
        return 0
    heaviest = max((layer for layer in graph.computed if isinstance(layer.op, Conv | Dense)), key=partial(_work, graph))
    image = FP32_BYTES * (prod(graph.shapes[heaviest.inputs[0]]) + prod(graph.shapes[heaviest.name]))
    images = max(1, min(PROBED_OPERATIONS[facts.accelerated] // _work(graph, heaviest), PROBED_BYTES // image))
    return PROBED_COPIES * (images * image + FP32_BYTES * graph.weights[heaviest.name])


def _work(graph: Graph, layer: Layer) -> int:
    """Operations of a layer for one image."""
    shape = graph.shapes[layer.name]
    return 2 * graph.weights[layer.name] * prod(shape[1:] if isinstance(layer.op, Conv) else shape[:-1])
