"""Estimates of memory and time against the memory that torch really uses, and against sums by hand."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from graphs import random_graph
from torch.nn import functional

from hpcai.estimate import Facts, Rates, Storage, memory, saved_bytes, seconds, step_bytes, total
from hpcai.gradients.wires import WIRES
from hpcai.models.module import build as build_module
from hpcai.networks import build
from hpcai.networks.graph import Graph

BATCH = 4
SETTINGS = {"PRECISION": "fp32", "DEGREE": 1, "BATCH": BATCH, "EPOCHS": 2, "GROUPS": 1}
SETTINGS |= {"ALLREDUCE": "flat", "WIRE": "fp32", "OPTIMISER": "sgd", "MOMENTUM": 0.9, "DECAY": 0.0}
FACTS = Facts(data_bytes=1000, samples=90, image_bytes=28 * 28)
FP32 = Storage()
NETWORKS = [
    build("resnet8", (28, 28), 1, 10),
    build("resnet18", (72, 66), 3, 20),
    build("resnet50", (32, 24), 3, 10, "v1"),
    *(random_graph(seed, grouped=True) for seed in range(12)),
]


def torch_saves(graph: Graph) -> int:
    """Bytes of distinct memory that torch saves for the backward pass, other than parameters, images and labels."""
    module = build_module(graph, 0)
    images = torch.randn(BATCH, *graph.shapes["image"])
    labels = torch.zeros(BATCH, dtype=torch.long)
    saved = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = functional.cross_entropy(module(images), labels)
    assert loss.requires_grad  # the graph, and all tensors it saved, still exist
    for own in (images, labels, *module.parameters(), *module.buffers()):
        saved.pop(own.untyped_storage().data_ptr(), None)
    return sum(saved.values())


@contextmanager
def allocations(folder: Path) -> Iterator[list[int]]:
    """The most bytes that torch held at once in the block, above the bytes at its begin."""
    from torch.profiler import ProfilerActivity, profile

    found: list[int] = []
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        yield found
    recorded.export_chrome_trace(str(folder / "trace.json"))
    events = [e for e in json.loads((folder / "trace.json").read_text())["traceEvents"] if e.get("name") == "[memory]"]
    held, most = 0, 0
    for event in sorted(events, key=lambda event: event["ts"]):
        held += event["args"]["Bytes"]
        most = max(most, held)
    found.append(most)


@pytest.mark.parametrize("graph", NETWORKS)
def test_activations_are_what_torch_saves(graph: Graph) -> None:
    loss = 4  # bytes: one more number than the network keeps
    assert saved_bytes(graph, BATCH, FP32) == pytest.approx(torch_saves(graph) - loss, rel=1e-4)


@pytest.mark.parametrize(("name", "side", "batch"), [("resnet8", 28, 16), ("resnet18", 64, 4), ("resnet50", 64, 2)])
def test_the_estimate_of_a_step_is_torchs_highest_memory(name: str, side: int, batch: int, tmp_path: Path) -> None:
    graph = build(name, (side, side), 3, 10)
    module = build_module(graph, 0).to(memory_format=torch.channels_last)
    x = torch.randn(batch, *graph.shapes["image"]).contiguous(memory_format=torch.channels_last)
    with allocations(tmp_path) as most:
        functional.cross_entropy(module(x), torch.zeros(batch, dtype=torch.long)).backward()
    assert most[0] <= 1.02 * step_bytes(graph, batch, FP32)
    assert step_bytes(graph, batch, FP32) <= 1.10 * most[0]
    assert step_bytes(graph, batch, FP32) > 1.01 * saved_bytes(graph, batch, FP32)


def test_memory_that_lasts_the_whole_training() -> None:
    graph = build("resnet18", (28, 28), 1, 10)
    module = build_module(graph, 0)
    parameters = sum(parameter.nbytes for parameter in module.parameters())
    statistics = sum(buffer.nbytes for buffer in module.buffers() if buffer.is_floating_point())
    rows = memory(graph, SETTINGS, FACTS)
    assert rows["weights"] == parameters + statistics
    assert rows["optimiser"] == parameters and rows["replay copies"] == 2 * (2 * parameters + statistics)
    assert rows["fingerprints"] == 23 * 2 * len(graph.parameters) * 8
    assert rows["snapshot"] == 2 * parameters + statistics
    assert rows["data"] == 1000 and rows["buckets"] == 0
    assert rows["samples"] == 8 * 90 + 3 * 8 * 2 * 23


def test_several_audited_steps_are_copied_where_their_copies_are_small() -> None:
    small, large = (memory(build(name, (28, 28), 1, 10), SETTINGS, FACTS) for name in ("resnet8", "resnet50"))
    assert small["replay copies"] == 4 * 2 * small["snapshot"]
    assert large["replay copies"] == 2 * large["snapshot"]
    carried = {**SETTINGS, "WIRE": "int8", "DEGREE": 2}
    assert memory(build("resnet8", (28, 28), 1, 10), carried, FACTS)["replay copies"] == 2 * small["snapshot"]


def test_checkpoints_are_copies_of_what_a_training_continues_from() -> None:
    graph, kept = build("resnet8", (28, 28), 1, 10), replace(FACTS, checkpoints=True)
    plain, copied = (memory(graph, SETTINGS, facts) for facts in (FACTS, kept))
    assert (plain["checkpoint"], copied["checkpoint"]) == (0, plain["snapshot"])
    assert total(copied) == total(plain) + plain["snapshot"]
    carried = memory(graph, {**SETTINGS, "WIRE": "int8", "DEGREE": 2}, kept)
    assert carried["checkpoint"] == plain["snapshot"] + WIRES["int8"]().carried_bytes(sum(graph.parameters.values()))
    assert memory(graph, SETTINGS, replace(kept, accelerated=True))["checkpoint"] == 0  # in the host's memory


def test_settings_change_the_estimate() -> None:
    graph = build("resnet8", (28, 28), 1, 10)
    plain = memory(graph, SETTINGS, FACTS)
    assert memory(graph, {**SETTINGS, "MOMENTUM": 0.0}, FACTS)["optimiser"] == 0
    assert memory(graph, {**SETTINGS, "DEGREE": 2}, FACTS)["buckets"] > plain["optimiser"]
    assert memory(graph, {**SETTINGS, "PRECISION": "pure16"}, FACTS)["optimiser"] * 2 == plain["optimiser"]
    assert memory(graph, {**SETTINGS, "PRECISION": "bf16"}, FACTS)["step"] < 0.8 * plain["step"]
    assert memory(graph, {**SETTINGS, "BATCH": 2 * BATCH}, FACTS)["step"] > 1.8 * plain["step"]
    on_gpu = memory(graph, SETTINGS, replace(FACTS, accelerated=True))
    assert on_gpu["data"] == on_gpu["samples"] == on_gpu["profile"] == 0  # all of them in the host's memory
    assert on_gpu["step"] == plain["step"] and on_gpu["other"] > plain["other"]
    graphs = memory(graph, {**SETTINGS, "COMPILE": "graphs"}, replace(FACTS, accelerated=True))
    assert graphs["step"] - on_gpu["step"] == step_bytes(graph, BATCH, Storage())
    grouped = memory(graph, {**SETTINGS, "DEGREE": 2}, replace(FACTS, accelerated=True))
    assert grouped["buckets"] > memory(graph, {**SETTINGS, "DEGREE": 2}, FACTS)["buckets"] + 200 * 2**20
    pixels = 28 * 28
    assert on_gpu["batches"] == BATCH * (7 * (pixels + 8) + 2 * 4 * pixels)
    assert memory(graph, {**SETTINGS, "DEGREE": 2, "GROUPS": 3}, FACTS)["samples"] == 8 * 45 + 90 + 3 * 8 * 2 * 12
    converted = replace(FACTS, converted=True)
    bf16 = {**SETTINGS, "PRECISION": "bf16"}
    assert memory(graph, bf16, converted)["step"] > 1.3 * memory(graph, bf16, FACTS)["step"]


def test_custom_kernels_of_cpus_keep_attention_of_16_bits_in_fp32() -> None:
    graph = build("decoder2x64", (1, 32), 1, 64)
    on_gpu = replace(FACTS, accelerated=True)
    vendor, custom, of_gpu, vendor_of_gpu = (
        memory(graph, {**SETTINGS, "PRECISION": "bf16", "KERNELS": kernels}, facts)["step"]
        for kernels, facts in (("vendor", FACTS), ("custom", FACTS), ("custom", on_gpu), ("vendor", on_gpu))
    )
    assert custom > 1.1 * vendor and of_gpu == vendor_of_gpu


def test_the_total_is_the_maximum_of_training_and_residuals() -> None:
    rows = memory(build("resnet8", (28, 28), 1, 10), SETTINGS, FACTS)
    training = {**rows, "residuals": 0, "replay": 0, "restoring": 0}
    assert total(training) == sum(training.values())
    restored = {**training, "restoring": rows["profile"] + 1}
    assert total(restored) == total(training) + 1
    evaluated = {**rows, "residuals": 0, "replay": 10**12}
    stays = ("data", "samples", "weights", "replay copies", "fingerprints", "checkpoint", "other")
    left = (*stays, "optimiser", "buckets", "step", "replay")
    assert total(evaluated) == sum(evaluated[name] for name in left)
    assert total({**rows, "residuals": 10**12}) == 10**12 + sum(
        rows[name] for name in stays
    )


def test_seconds_by_hand() -> None:
    settings = {"EPOCHS": 4, "EVALUATE": 2, "BATCH": 10, "DEGREE": 2, "GROUPS": 3}
    found = seconds(Rates(training=0.1, validation=0.01, update=0.5), settings, steps=5, training=100, validation=60)
    assert found["training"] == pytest.approx(4 * 5 * (0.5 + 10 * 0.1))
    assert found["validation"] == pytest.approx(2 * 30 * 0.01)
    assert found["ensemble"] == pytest.approx(30 * 0.01 + 50 * 0.01 + 3 * 1.5)
    custom = seconds(Rates(0.1, 0.01, 0.5), {**settings, "KERNELS": "custom"}, steps=5, training=100, validation=60)
    samples = 9 * 4 * min(settings["BATCH"], 8) + 16 * settings["BATCH"]  # of steps compared with the vendor's
    assert custom == {**found, "preparation": pytest.approx(found["preparation"] + samples * 0.1)}
    alone = seconds(Rates(0.1, 0.01, 0.5), {**settings, "GROUPS": 1}, steps=5, training=100, validation=60)
    assert alone["ensemble"] < found["ensemble"]
