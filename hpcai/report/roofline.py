"""Printed roofline notes of a test: the binding ceiling, and where the ceilings were measured."""

from collections.abc import Iterator, Mapping

from hpcai.record.roofline import AllReduceSource, KernelsSource, Roofline

BOUNDS = {"compute": "convolution and GEMM", "memory": "memory", "communication": "communication"}
PRODUCTS = {"gemm": "GEMM", "convolution": "convolution"}
SCOPES = {"group": "the groups", "world": "all ranks"}


def notes(found: Roofline, one_rank: bool) -> Iterator[str]:
    """The binding bound, all bounds, and the tests that measured the ceilings."""
    yield f"Roofline: {_binding(found)}; {', '.join(_bounds(found, one_rank))}"
    for source in (_kernels(found.kernels), *_all_reduce(found.all_reduce, one_rank)):
        yield f"Roofline: ceilings of a rank: {source}"


def _binding(found: Roofline) -> str:
    if found.binding is None or found.ceilings.attainable is None:
        return "no ceiling was measured before this test"
    return f"attainable {found.ceilings.attainable / 1e9:.2f} GFLOP/s a rank, bound by {BOUNDS[found.binding]}"


def _bounds(found: Roofline, one_rank: bool) -> Iterator[str]:
    for name, words in BOUNDS.items():
        if name != "communication" or not one_rank:
            ceiling = getattr(found.ceilings, name)
            yield f"{words} " + ("not measured" if ceiling is None else f"{ceiling / 1e9:.2f}")


def _kernels(source: KernelsSource | None) -> str:
    if source is None:
        return "no table of kernels before this test"
    triad = "memory not measured" if source.triad is None else f"memory {source.triad / 1e9:.2f} GB/s"
    measured = {name: counts for name, counts in source.faster.items() if sum(counts.values())}
    faster = [f"{PRODUCTS[name]} by {_faster(counts)}" for name, counts in measured.items()]
    return ", ".join([f"test {source.test}: {triad}", *faster, f"type {source.type}"])


def _faster(counts: Mapping[str, int]) -> str:
    """Number of products in which each provider was the fastest."""
    ahead = {provider: count for provider, count in counts.items() if count}
    if len(ahead) == 1:
        return next(iter(ahead))
    return " and ".join(f"{provider} ({count})" for provider, count in ahead.items())


def _all_reduce(source: AllReduceSource | None, one_rank: bool) -> Iterator[str]:
    if source is not None:
        reduced = f"all-reduce of {source.nbytes} bytes by {source.by} over {SCOPES[source.scope]}"
        yield f"test {source.test}: {reduced} {source.bandwidth / 1e9:.3f} GB/s"
    elif not one_rank:
        yield "no all-reduce of such groups before this test"
