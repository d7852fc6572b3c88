"""Stages train as one rank does that runs the micro-batches in sequence; planted faults are detected."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fault_runs import CLAIMS, DEVIATION, EVALUATED, FAULTY, OPERATIONS, SAME, VALIDATION, Run
from launch import mpirun
from sampled_parameters import EXHAUSTIVE, SLOW, on_ranks

if TYPE_CHECKING:
    from torch import Tensor, nn

    from hpcai.comm.grid import Group
    from hpcai.inputfile import Case
    from hpcai.train.execution import Execution

BATCH, NETWORK, SEED = 4, ("resnet8", (12, 12), 3, 10), 3  # samples of a rank
SPLITS = {
    2: ("1x1x2",),
    3: ("1x1x3",),
    4: ("1x1x4", "2x1x2", "1x2x2"),
    6: ("1x1x6", "3x1x2", "1x2x3", "1x3x2"),
}


def case_of(split: str, ranks: int, **more: object) -> "Case":
    from hpcai.inputfile import Case

    given = {"PARALLEL": "mixed", "SPLIT": split, "DEGREE": ranks, "GROUPS": 1, "BATCH": BATCH, "SEED": SEED}
    return Case(1, "ensemble", {**given, "WIRE": "fp32", "ALLREDUCE": "flat", "CHUNKS": 0, **more})


def staged(case: "Case", group: "Group", kind: str) -> tuple["nn.Module", "Execution"]:
    """This rank's part of the network and its execution."""
    import torch

    from hpcai import networks
    from hpcai.training.assembly import model_of
    from hpcai.training.execution import execution_of

    device = torch.device("cpu")
    module = model_of(case, group, device, networks.build(*NETWORK)).to(getattr(torch, kind))
    module.to(memory_format=torch.channels_last)
    return module, execution_of(case, group, device, module, NETWORK[-1:])


def batch_of(replica: int, samples: int, kind: str) -> tuple["Tensor", "Tensor"]:
    import torch

    generator = torch.Generator().manual_seed(replica)
    x = torch.randn(samples, NETWORK[2], *NETWORK[1], generator=generator, dtype=torch.float64)
    y = torch.randint(0, NETWORK[3], (samples,), generator=generator)
    return x.to(getattr(torch, kind)).to(memory_format=torch.channels_last), y


def in_sequence(case: "Case", samples: int, kind: str) -> tuple["nn.Module", float]:
    """One rank's whole network after the micro-batches of all replicas in sequence, and its loss."""
    import torch

    from hpcai import networks
    from hpcai.data.philox import Purpose, seed_of
    from hpcai.models.module import build
    from hpcai.train.objective import Classification

    module = build(networks.build(*NETWORK), seed_of(SEED, Purpose.WEIGHTS, 0)).to(getattr(torch, kind))
    module.to(memory_format=torch.channels_last)
    objective, replicas, total = Classification(0.1), case.split.replicas, 0.0
    for replica in range(replicas):
        x, y = batch_of(replica, samples, kind)
        count = max(1, min(case.chunks, samples // 2))
        for images, labels in zip(x.tensor_split(count), y.tensor_split(count), strict=True):
            loss = len(labels) / samples * objective(module, images, labels, 0)
            loss.backward()
            total += float(loss) / replicas
    for parameter in module.parameters():
        parameter.grad /= replicas
    return module, total


def worst_difference(case: "Case", group: "Group", module: "nn.Module", exact: "nn.Module") -> float:
    """Largest relative difference of a gradient, by norms, from this rank's share of the exact one."""
    from hpcai import networks
    from hpcai.models.tensor_part import share
    from hpcai.opcount.stages import parts_of

    divided, place = case.split, group.place
    part = parts_of(networks.build(*NETWORK), case.cut, place.shard)[place.stage]
    gradients = {name: parameter.grad for name, parameter in exact.named_parameters()}
    worst = 0.0
    for name, parameter in module.named_parameters():
        kind = part.divided.get(name.rpartition(".")[0])
        own = share(gradients[name].double(), kind, place.shard, divided.shards)
        worst = max(worst, float((parameter.grad.double() - own).norm() / own.norm().clamp_min(1e-30)))
    return worst


@pytest.mark.parametrize("ranks", [on_ranks(2), on_ranks(3, EXHAUSTIVE), on_ranks(4, SLOW), on_ranks(6, EXHAUSTIVE)])
def test_gradients_and_losses_equal_those_of_the_micro_batches_in_sequence(ranks: int) -> None:
    """Bit by bit where nothing is summed over ranks, else in float64 to rounding; replicas are averaged in fp32.

    Full batches, batches of which micro-batches have unequal sizes, and one sample.
    """
    from math import isclose

    import torch
    from mpi4py import MPI

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group
    from hpcai.train.objective import Classification
    from hpcai.train.state import TrainingState, nothing

    class Unscaled:
        scaler = None
        backward = TrainingState.backward
        backward_begins = staticmethod(nothing)

    for word in SPLITS[ranks]:
        case = case_of(word, ranks)
        group = split(MPI.COMM_WORLD, 1, ranks, "row", case.split)
        assert group is not None
        with process_group(group, "localhost", torch.device("cpu")):
            for kind, samples in (("float64", case.replica_batch), ("float64", 7), ("float32", case.replica_batch)):
                module, execution = staged(case, group, kind)
                x, y = batch_of(group.place.replica, samples, kind)
                state: Any = Unscaled()
                loss = execution.step(Classification(0.1), state, x, y, 0)
                exact, expected = in_sequence(case, samples, kind)
                alone = case.split.parts == case.split.stages == ranks
                exactly = case.split.replicas == 1 and kind == "float64"
                limit = 0.0 if alone else 1e-9 if exactly else 2.0**-22 if kind == "float64" else 1e-4
                assert worst_difference(case, group, module, exact) <= limit, (word, kind, samples)
                mean = MPI.COMM_WORLD.allreduce(float(loss)) / (ranks // case.split.stages)
                assert isclose(mean, expected, rel_tol=1e-6), (word, kind, samples)
        group.free()


@pytest.mark.exhaustive
@pytest.mark.parallel(4)
def test_replicas_of_shards_begin_with_the_shares_of_the_whole_networks_weights() -> None:
    import torch
    from mpi4py import MPI

    from hpcai import networks
    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group
    from hpcai.data.philox import Purpose, seed_of
    from hpcai.models.module import build
    from hpcai.models.tensor_part import share
    from hpcai.opcount.stages import parts_of

    case, graph = case_of("2x2x1", 4), networks.build(*NETWORK)
    group = split(MPI.COMM_WORLD, 1, 4, "row", case.split)
    assert group is not None
    whole = build(graph, seed_of(SEED, Purpose.WEIGHTS, 0)).state_dict()
    (part,) = parts_of(graph, case.cut, group.place.shard)
    with process_group(group, "localhost", torch.device("cpu")):
        module, _ = staged(case, group, "float32")
        for name, value in module.named_parameters():
            own = share(whole[name], part.divided.get(name.rpartition(".")[0]), group.place.shard, 2)
            assert torch.equal(value, own), name
    group.free()


@pytest.mark.parallel(4)
def test_the_simple_pass_of_replays_gives_the_same_gradients() -> None:
    import torch
    from mpi4py import MPI

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group
    from hpcai.train.objective import Classification

    ranks = MPI.COMM_WORLD.size
    case = case_of(f"1x1x{ranks}", ranks)
    group = split(MPI.COMM_WORLD, 1, ranks, "row", case.split)
    assert group is not None
    with process_group(group, "localhost", torch.device("cpu")):
        module, execution = staged(case, group, "float32")
        x, y = batch_of(0, case.replica_batch, "float32")
        loss = execution.alone(module, Classification(0.1), x, y, 0)
        exact, expected = in_sequence(case, case.replica_batch, "float32")
        assert worst_difference(case, group, module, exact) == 0.0
        assert abs(float(loss) - expected) < 1e-6, "the loss is on all stages"
        with torch.inference_mode():
            logits, whole = execution.network.eval()(x), exact.eval()(x)
        if group.place.stage == ranks - 1:  # but for rounding: with AVX-512 it depends on the layout of the input
            torch.testing.assert_close(logits, whole, rtol=1e-5, atol=1e-5)
    group.free()


@pytest.mark.parallel(4)
@pytest.mark.parametrize("word", SPLITS[4])
def test_sums_are_checked_where_parts_have_different_numbers_of_gradients(word: str) -> None:
    import torch
    from mpi4py import MPI

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group
    from hpcai.train.data_parallel import wrong_sums

    group = split(MPI.COMM_WORLD, 1, MPI.COMM_WORLD.size, "row", case_of(word, 4).split)
    assert group is not None
    with process_group(group, "localhost", torch.device("cpu")):
        _, execution = staged(case_of(word, 4), group, "float32")
        gradients = 1000 * (1 + group.place.stage) + 10 * group.place.shard
        assert wrong_sums(group, torch.device("cpu"), execution.communication, gradients) == 0
    group.free()


FAULTS: dict[str, set[str]] = {
    "none": set(),
    "wrong_micro_batch_in_a_stage": {DEVIATION},
    "gradients_of_a_micro_batch_lost": {DEVIATION},
    "micro_batch_trained_twice": {DEVIATION},
    "one_micro_batch": {CLAIMS},
    "outputs_of_other_samples": {EVALUATED},
    "earlier_micro_batch_evaluated": {EVALUATED},
    "each_stage_credited": {OPERATIONS, VALIDATION},
}
OF_REPLICAS: dict[str, set[str]] = {"none": set(), "replica_not_averaged": {SAME, DEVIATION}}


def expect(run: Run, faults: dict[str, set[str]], digit: str) -> None:
    for row, test, (fault, expected) in zip(run.rows, run.result["tests"], faults.items(), strict=True):
        failed: set[Any] = {name for name, verdict in row.items() if verdict == "FAILED"}
        assert expected <= failed and (failed == expected or fault != "none"), (fault, failed)
        assert test["tv"][5] == digit


@pytest.mark.slow
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")
def test_faults_are_detected_in_the_real_program(tmp_path: Path) -> None:
    """One fault a test; further checks may fail as well."""
    settings = ["GROUPS=1", "DEGREE=2", "PARALLEL=pipeline"]
    expect(Run(tmp_path, [FAULTY, ",".join(FAULTS)], settings, len(FAULTS)), FAULTS, "3")


@pytest.mark.exhaustive
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: FAULTS NOT PLANTED")
def test_faults_of_replicas_of_a_pipeline_are_detected(tmp_path: Path) -> None:
    settings = ["GROUPS=1", "DEGREE=4", "PARALLEL=mixed", "SPLIT=2x1x2"]
    run = Run(tmp_path, [FAULTY, ",".join(OF_REPLICAS)], settings, len(OF_REPLICAS), 4)
    expect(run, OF_REPLICAS, "4")
