"""Seconds until each of our kernels on CPUs has computed once in a new process, with what it compiled before on disk.

    python benchmarks/first.py [--threads 2]

Run it twice: the first run may have to compile. What is imported, which all runs need, is told apart.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

Call = tuple[str, Callable[[], object]]


def products(threads: int) -> Iterator[Call]:
    """Matrix products of all types."""
    import numpy as np

    from hpcai.kernels.gemm.numba_cpu import gemm, gemm_bytes

    for kind in (np.float32, np.float64):
        for count in {1, threads}:
            a, c = np.ones((40, 40), kind), np.ones((40, 40), kind)
            yield f"gemm {kind.__name__}, threads {count}", lambda a=a, c=c, n=count: gemm(a, a, c, threads=n)
    a, c = np.ones((40, 40), np.int8), np.ones((40, 40), np.int32)
    yield "gemm int8", lambda: gemm_bytes(a, a, c, threads)


def convolutions(threads: int) -> Iterator[Call]:
    """Three directions, of one kernel for each way that there is: many channels, few, and depth-wise."""
    import numpy as np

    from hpcai.kernels.conv2d import Shape
    from hpcai.kernels.conv2d import numba_cpu as ours

    for title, shape in {
        "many channels": Shape(1, 40, 9, 9, 40, (3, 3), (1, 1), (1, 1)),
        "few channels": Shape(1, 3, 9, 9, 40, (3, 3), (1, 1), (1, 1)),
        "depth-wise": Shape(1, 40, 9, 9, 40, (3, 3), (1, 1), (1, 1), groups=40),
    }.items():
        for count in {1, threads}:
            x, w, y = (np.ones([size[axis] for axis in ours.LAST], np.float32) for size in (shape.x, shape.w, shape.y))
            for name, first, second, result in (
                ("forward", x, w, y),
                ("input_gradient", y, w, x),
                ("weight_gradient", x, y, w),
            ):
                call = getattr(ours, name)
                yield (
                    f"convolution, {title}, {name}, threads {count}",
                    lambda c=call, f=first, o=second, r=result, s=shape, n=count: c(f, o, r, s, n),
                )


def ceilings(threads: int) -> Iterator[Call]:
    """What the roofline is made of."""
    import numpy as np

    from hpcai.kernels.fma_peak import numba_cpu as fma_peak
    from hpcai.kernels.triad import numba_cpu as triad

    yield "fma_peak", lambda: fma_peak.peak(np.float32, 0.5, 1.0, 4, threads)
    a, b = np.ones(1024), np.ones(1024)
    yield "triad", lambda: triad.triad(a, b, b, 3.0, threads)


def detection(threads: int) -> Iterator[Call]:
    """Suppression of boxes, and the pooling of regions in both directions."""
    import numpy as np

    from hpcai.kernels.nms import numba_cpu as nms
    from hpcai.kernels.roi_align import numba_cpu as roi_align

    boxes, level = np.ones((1, 3, 4), np.float32), np.zeros((1, 3), np.int32)
    maps, bins = np.ones((1, 5, 5, 16), np.float32), np.ones((1, 3, 2, 2, 16), np.float32)
    yield "nms", lambda: nms.nms(boxes, boxes[..., 0], level, 0.5, 3, threads)
    yield "roi_align, forward", lambda: roi_align.forward(maps, boxes, level, 0, 1.0, 2, 2, bins, threads)
    yield "roi_align, backward", lambda: roi_align.backward(bins, boxes, level, 0, 1.0, 2, 2, maps, threads)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Seconds until each of our kernels has computed once.")
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args(arguments).threads
    begin = time.perf_counter()
    import hpcai.kernels.conv2d.numba_cpu
    import hpcai.kernels.fma_peak.numba_cpu
    import hpcai.kernels.nms.numba_cpu
    import hpcai.kernels.roi_align.numba_cpu
    import hpcai.kernels.triad.numba_cpu  # noqa: F401

    print(f"imports {time.perf_counter() - begin:.3f} s")
    total = 0.0
    for title, call in (*products(threads), *convolutions(threads), *ceilings(threads), *detection(threads)):
        begin = time.perf_counter()
        call()
        seconds = time.perf_counter() - begin
        total += seconds
        print(f"{title:<60} {seconds:.3f} s")
    print(f"all first calls {total:.3f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
