"""Our kernels against the vendor's: matrix products, also of bytes, convolutions, attention, sums and RMS norm.

    python benchmarks/kernels.py [gemm] [bytes] [convolution] [grouped] [attention] [rms_norm] [sums]
        [--threads 1 2] [--batches 8 32] [--rounds 5] [--cpu-time]

Providers take turns in blocks: a pause in which the pools of the others go to sleep, a call that does not count, then
calls for a while. What counts is the median over the rounds of the ratio to the faster one of the others in that round.
With --cpu-time seconds are those of the processor: on a machine that others use, for one thread.
Every result is compared with float64 in tests/test_kernels_*.py, not here.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

PAUSE = 0.1  # OpenBLAS waits for work for so long with a thread on each core
SIZES = (512, 1024, 2048, 4096)
SEQUENCES = "attention", "rms_norm", "sums"
clock = time.perf_counter
Calls = dict[str, Callable[[], Any]]
# Channels, pixels of a side, taps of a side, stride: 3 x 3 layers of ResNeXt-50 (32 x 4d), in as many groups.
GROUPS = (2, 4, 32)
RESNEXT = ((128, 56, 3, 1), (256, 56, 3, 2), (256, 28, 3, 1), (512, 28, 3, 2), (512, 14, 3, 1), (1024, 14, 3, 2),
           (1024, 7, 3, 1))
# Depth-wise layers of MobileNetV2 and of EfficientNet-B0, at 224 x 224.
DEPTH_WISE = ((32, 112, 3, 1), (96, 112, 3, 2), (144, 56, 3, 1), (144, 56, 3, 2), (192, 28, 3, 1), (192, 28, 3, 2),
              (384, 14, 3, 1), (576, 14, 3, 2), (960, 7, 3, 1), (144, 56, 5, 2), (240, 28, 5, 1), (480, 14, 5, 1),
              (672, 14, 5, 2), (1152, 7, 5, 1))


def seconds(call: Callable[[], Any], least: float) -> float:
    """Of one call: the mean of as many as fit `least` seconds, one at least."""
    time.sleep(PAUSE)
    call()
    begin, calls = clock(), 0
    while calls == 0 or clock() - begin < least:
        call()
        calls += 1
    return (clock() - begin) / calls


def compared(calls: Calls, rounds: int, least: float = 0.05) -> tuple[dict[str, float], float]:
    """Median seconds of each provider, the first ours, and the median of the ratios of ours to the best other."""
    found = [{name: seconds(call, least) for name, call in calls.items()} for _ in range(rounds)]
    own, *others = calls
    ratios = [min(times[name] for name in others) / times[own] for times in found]
    return {name: statistics.median(times[name] for times in found) for name in calls}, statistics.median(ratios)


def told(title: str, operations: float, calls: Calls, rounds: int) -> float:
    """Print a line, and return its ratio."""
    times, ratio = compared(calls, rounds)
    rates = "  ".join(f"{name} {operations / value / 1e9:8.2f}" for name, value in times.items())
    print(f"{title:<62} {rates}  ratio {ratio:.3f}", flush=True)
    return ratio


def products(threads: int, rounds: int) -> None:
    """GEMM in fp32 and fp64 against torch (MKL) and NumPy (OpenBLAS)."""
    import numpy as np
    import torch

    from hpcai.kernels.gemm.numba_cpu import gemm

    for kind in (np.float32, np.float64):
        ratios = []
        for n in SIZES:
            tensors = [torch.randn(n, n, dtype=getattr(torch, kind.__name__)) for _ in range(5)]
            a, b, c, d, _ = (tensor.numpy() for tensor in tensors)
            calls = {
                "ours": lambda a=a, b=b, c=c: gemm(a, b, c, threads=threads),
                "torch": lambda t=tensors: torch.mm(t[0], t[1], out=t[4]),
                "numpy": lambda a=a, b=b, d=d: np.matmul(a, b, out=d),
            }
            ratios.append(told(f"gemm {kind.__name__} {n}, {threads} threads", 2.0 * n**3, calls, rounds))
        print(f"mean {statistics.mean(ratios):.3f}, worst {min(ratios):.3f} at {SIZES[ratios.index(min(ratios))]}")


def bytes_(threads: int, rounds: int) -> None:
    """int8 against our own fp32."""
    import numpy as np

    from hpcai.kernels.gemm.numba_cpu import gemm, gemm_bytes

    for n in SIZES[1:3]:
        generator = np.random.default_rng(1)
        a, b = (generator.integers(-128, 128, (n, n), np.int8) for _ in range(2))
        x, y = a.astype(np.float32), b.astype(np.float32)
        c, z = np.empty((n, n), np.int32), np.empty((n, n), np.float32)
        calls = {
            "int8": lambda a=a, b=b, c=c: gemm_bytes(a, b, c, threads),
            "fp32": lambda x=x, y=y, z=z: gemm(x, y, z, threads=threads),
        }
        told(f"gemm int8 {n}, {threads} threads, over our own fp32", 2.0 * n**3, calls, rounds)


def convolutions(batch: int, threads: int, rounds: int) -> None:
    """All layers of ResNet-50 in three directions, against both layouts of torch (oneDNN)."""
    from hpcai import networks
    from hpcai.kernels import conv2d
    from hpcai.kernels.spec import DIRECTIONS, INPUT_GRADIENT
    from hpcai.opcount.products import shapes_of

    found, stem = [], None
    network = networks.build("resnet50", (224, 224), 3, 1000)
    shapes = Counter(shape for shape, _ in shapes_of(network, batch))
    for shape, times in shapes.items():
        stem = stem or shape
        if not isinstance(shape, conv2d.Shape):
            continue
        calls = _directions(shape, threads)
        for direction in DIRECTIONS:
            if (shape, direction) == (stem, INPUT_GRADIENT):
                continue
            title = f"{direction:<15} {shape.channels}x{shape.height}x{shape.width} -> {shape.filters}, "
            title += f"{shape.kernel[0]}x{shape.kernel[1]}/{shape.stride[0]}, {times}x"
            found.append((told(title, conv2d.operations(shape), calls[direction], rounds), times, title))
    mean = sum(ratio * times for ratio, times, _ in found) / sum(times for _, times, _ in found)
    print(f"batch {batch}, {threads} threads: mean {mean:.3f}, worst {min(found)[0]:.3f}: {min(found)[2]}", flush=True)


def grouped(batch: int, threads: int, rounds: int) -> None:
    """Grouped and depth-wise layers in three directions, against both layouts of torch (oneDNN)."""
    layers = [(f"{groups} groups", layer, groups) for groups in GROUPS for layer in RESNEXT]
    layers += [(f"depth-wise {layer[2]} x {layer[2]}", layer, layer[0]) for layer in DEPTH_WISE]
    found: dict[str, list[tuple[float, str]]] = {}
    for kind, (channels, side, taps, stride), groups in layers:
        for direction, title, ratio in _layer(batch, channels, side, taps, stride, groups, threads, rounds):
            for name in (f"{kind}, {direction}", kind, "all"):
                found.setdefault(name, []).append((ratio, title))
    for name, ratios in found.items():
        mean, (worst, title) = statistics.geometric_mean(ratio for ratio, _ in ratios), min(ratios)
        head = f"batch {batch}, {threads} threads: {name}"
        print(f"{head}: geometric mean {mean:.3f}, worst {worst:.3f}: {title}", flush=True)


def _layer(
    batch: int, channels: int, side: int, taps: int, stride: int, groups: int, threads: int, rounds: int
) -> Iterator[tuple[str, str, float]]:
    from hpcai.kernels import conv2d
    from hpcai.kernels.spec import DIRECTIONS

    padding = (taps // 2, taps // 2)
    window = ((taps, taps), (stride, stride), padding, (1, 1), groups)
    shape = conv2d.Shape(batch, channels, side, side, channels, *window)
    calls = _directions(shape, threads)
    for direction in DIRECTIONS:
        title = f"{direction:<15} {channels}x{side}x{side}, {taps}x{taps}/{stride}, {groups} groups"
        yield direction, title, told(title, conv2d.operations(shape), calls[direction], rounds)


def _directions(shape: Any, threads: int) -> dict[str, Calls]:
    import torch

    from hpcai.kernels.conv2d import numba_cpu as ours
    from hpcai.kernels.spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

    x, w, g = (torch.randn(size) for size in (shape.x, shape.w, shape.y))
    last = [tensor.permute(0, 2, 3, 1).contiguous().numpy() for tensor in (x, w, g)]
    results = [torch.empty(array.shape).numpy() for array in last]
    window = (list(shape.stride), list(shape.padding), list(shape.dilation), False, [0, 0], shape.groups)

    def backward(tensors: Any, wanted: Sequence[bool]) -> Callable[[], Any]:
        x, w, g = tensors
        return lambda: torch.ops.aten.convolution_backward(g, x, w, None, *window, list(wanted))

    layouts = {
        "contiguous": (x, w, g),
        "channels_last": tuple(t.contiguous(memory_format=torch.channels_last) for t in (x, w, g)),
    }
    calls: dict[str, Calls] = {
        FORWARD: {"ours": lambda: ours.forward(last[0], last[1], results[2], shape, threads)},
        INPUT_GRADIENT: {"ours": lambda: ours.input_gradient(last[2], last[1], results[0], shape, threads)},
        WEIGHT_GRADIENT: {"ours": lambda: ours.weight_gradient(last[0], last[2], results[1], shape, threads)},
    }
    for name, tensors in layouts.items():
        calls[FORWARD][name] = lambda t=tensors: torch.ops.aten.convolution(t[0], t[1], None, *window)
        calls[INPUT_GRADIENT][name] = backward(tensors, (True, False, False))
        calls[WEIGHT_GRADIENT][name] = backward(tensors, (False, True, False))
    return calls


def sequences(name: str, threads: int, rounds: int) -> None:
    """Attention, RMS norm or a sum with one against torch's."""
    import sequence_kernels
    import torch

    torch.set_num_threads(threads)
    ratios = [told(*case, rounds) for case in getattr(sequence_kernels, name)(threads)]
    print(f"{name}, {threads} threads: mean {statistics.mean(ratios):.3f}, worst {min(ratios):.3f}", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run what is asked for, each number of threads in a process of its own: pools keep the size they begin with."""
    parser = argparse.ArgumentParser(description="Our kernels against the vendor's.")
    parser.add_argument("what", nargs="*", default=["gemm", "bytes", "convolution", "grouped", *SEQUENCES])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu-time", action="store_true")
    options = parser.parse_args(arguments)
    if len(options.threads) > 1:
        return max(_in_a_process(arguments, threads) for threads in options.threads)
    if options.cpu_time:
        globals()["clock"] = time.process_time
    (threads,) = options.threads
    for name in ("OMP", "MKL", "OPENBLAS", "NUMBA"):
        os.environ[f"{name}_NUM_THREADS"] = str(threads)
    _head()
    if "gemm" in options.what:
        products(threads, options.rounds)
    if "bytes" in options.what:
        bytes_(threads, options.rounds)
    if "convolution" in options.what:
        for batch in options.batches:
            convolutions(batch, threads, options.rounds)
    if "grouped" in options.what:
        for batch in options.batches:
            grouped(batch, threads, options.rounds)
    for name in (each for each in SEQUENCES if each in options.what):
        sequences(name, threads, options.rounds)
    return 0


def _in_a_process(arguments: Sequence[str], threads: int) -> int:
    import subprocess

    return subprocess.run([sys.executable, __file__, *arguments, "--threads", str(threads)], check=False).returncode


def _head() -> None:
    import numba
    import numpy
    import torch

    versions = f"torch {torch.__version__}, NumPy {numpy.__version__}, Numba {numba.__version__}"
    machine = platform.processor() or platform.machine()
    print(f"{machine}, load {os.getloadavg()[0]:.1f}, {versions}; GFLOP/s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
