"""Lines of the report that place a test, and the layers of a network, under the roofline of the run."""

from collections.abc import Iterator
from typing import Any

from hpcai.report.text import score

Json = dict[str, Any]

UNKNOWN = "n/a, not measured"
SHARES = {
    "fma_peak": "share of the FMA peak, fp32",
    "gemm": "share of the GEMM ceiling, fp32",
    "convolution": "share of the convolution ceiling, fp32",
    "compute": "share of the computing bound",
    "memory": "share of the memory bound",
    "communication": "share of the communication bound",
    "attainable": "share of what is attainable",
}
BOUNDS = {"compute": "convolution and GEMM", "memory": "memory", "communication": "communication"}
PRODUCTS = {"gemm": "GEMM", "convolution": "convolution"}
SCOPES = {"group": "the groups", "world": "all ranks"}


def lines(test: Json) -> Iterator[str]:
    """A rank's rate, its FLOP per byte, its share of each ceiling, and the bandwidth of its gradients."""
    found, alone = test["scores"]["roofline"], test["q"] == 1
    yield score("GFLOP/s of a rank", found["rate"] / 1e9)
    yield score("FLOP per byte of memory", found["intensity"]["memory"])
    yield score("FLOP per byte all-reduced", found["intensity"]["communication"], "n/a, one rank")
    for name, words in shares(found).items():
        without = "n/a, one rank" if name == "communication" and alone else UNKNOWN
        yield score(words, found["shares"][name], without)
    for where, rate in test["scores"]["gradient_bandwidth"].items():
        without = "n/a, one rank" if alone else "n/a, none"
        yield score(f"bandwidth of gradients {where} nodes, GB/s", None if rate is None else rate / 1e9, without)


def shares(found: Json) -> dict[str, str]:
    """What a test is held against, by name, in words: ceilings are of fp32 unless their source says otherwise."""
    dtype = (found["sources"]["kernels"] or {}).get("type", "fp32")
    return {name: words.replace("fp32", dtype) for name, words in SHARES.items()}


def notes(test: Json) -> Iterator[str]:
    """What binds, how low each bound is, and where the ceilings were measured."""
    found = test["scores"]["roofline"]
    yield f"Roofline: {_binding(found)}; {', '.join(_bounds(found, test['q'] == 1))}"
    for source in (_computing(found["sources"]["kernels"]), *_network(found["sources"]["comm"], test["q"] == 1)):
        yield f"Roofline: ceilings of a rank: {source}"


def _binding(found: Json) -> str:
    if found["binding"] is None:
        return "nothing to hold it against"
    rate = f"{found['ceilings']['attainable'] / 1e9:.2f} GFLOP/s"
    return f"a rank could reach {rate}, bound by {BOUNDS[found['binding']]}"


def _bounds(found: Json, alone: bool) -> Iterator[str]:
    for name, words in BOUNDS.items():
        if name != "communication" or not alone:
            ceiling = found["ceilings"][name]
            yield f"{words} " + ("not measured" if ceiling is None else f"{ceiling / 1e9:.2f}")


def _computing(source: Json | None) -> str:
    if source is None:
        return "no table of kernels before this test"
    triad = "memory not measured" if source["triad"] is None else f"memory {source['triad'] / 1e9:.2f} GB/s"
    measured = {name: counts for name, counts in source["faster"].items() if sum(counts.values())}
    whose = [f"{PRODUCTS[name]} by {_whose(counts)}" for name, counts in measured.items()]
    return ", ".join([f"test {source['test']}: {triad}", *whose])


def _whose(counts: Json) -> str:
    """Which provider was the faster one in how many products."""
    ahead = {provider: count for provider, count in counts.items() if count}
    if len(ahead) == 1:
        return next(iter(ahead))
    return " and ".join(f"{provider} ({count})" for provider, count in ahead.items())


def _network(source: Json | None, alone: bool) -> Iterator[str]:
    if source is not None:
        reduced = f"all-reduce of {source['nbytes']} bytes by {source['by']} over {SCOPES[source['scope']]}"
        yield f"test {source['test']}: {reduced} {source['bandwidth'] / 1e9:.3f} GB/s"
    elif not alone:
        yield "no all-reduce of such groups before this test"
