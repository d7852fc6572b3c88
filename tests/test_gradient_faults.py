"""Trainings by all-reduces of several phases and narrow wire types: right ones pass, planted faults are detected."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from assumed_nodes import grouped

if TYPE_CHECKING:
    from hpcai.comm.grid import Group
    from hpcai.train.replay import Findings


def findings(group: "Group", patches: Callable[[pytest.MonkeyPatch], None] | None = None, **how: Any) -> "Findings":
    """The findings of a training's replayed steps, the worst of any rank, and whether its ranks stay equal."""
    from mpi4py import MPI
    from tiny import CPU, training, unending

    from hpcai.clock import Phases
    from hpcai.train.data_parallel import differs_from_leader

    with pytest.MonkeyPatch.context() as patch:
        if patches:
            patches(patch)
        made = training(group, samples=80 * group.degree, epochs=2, **how)
        made.warm_up()
        made.run(Phases(CPU), unending())
    found = made.replay.findings
    found.deviation = group.model.allreduce(found.deviation, MPI.MAX)
    found.lost = group.model.allreduce(found.lost, MPI.MAX)
    found.changed += group.model.allreduce(int(differs_from_leader(made.state.module, group)))
    return found


@pytest.mark.parallel(4)
def test_trainings_by_every_path_are_within_the_limits_of_replayed_steps() -> None:
    from hpcai.record.check_declarations import TERM_LOST

    with grouped() as group:
        chosen = [
            ("flat", "fp16", "gloo"),
            ("hierarchical", "int8", "mpi"),
            ("torus", "fp32", "gloo"),
            ("flat", "int8", "gloo"),
        ]
        for reduction, wire, by in chosen:
            if reduction == "hierarchical" and group.degree % 2:
                continue
            for precision in ("fp32", "fp16"):
                found = findings(group, reduction=reduction, wire=wire, by=by, precision=precision)
                where = (reduction, wire, by, precision, found)
                assert found.changed == 0 and found.wrong_epochs == 0, where
                assert found.deviation[0] < 0.5 and found.lost[0] < 0.1 * TERM_LOST, where


@pytest.mark.parallel(4)
def test_faults_of_a_path_are_detected_by_replayed_steps() -> None:
    """Of what only one rank does wrong, the checks before the clock and the comparison of ranks would find some too."""
    from hpcai.record.check_declarations import TERM_LOST

    with grouped() as group:
        if group.degree < 4 or group.degree % 2:
            return
        for name, (fault, how) in faults(group).items():
            found = findings(group, fault, **how)
            seen = found.deviation[0] > 1 or found.lost[0] > TERM_LOST or found.changed > 0
            assert seen or name in SMALL, (name, found)


@pytest.mark.parallel(4)
def test_faults_of_a_path_are_detected_before_the_clock() -> None:
    from tiny import CPU, communication

    from hpcai.train.data_parallel import wrong_sums

    with grouped() as group:
        if group.degree < 4 or group.degree % 2:
            return
        for name, (fault, how) in faults(group).items():
            with pytest.MonkeyPatch.context() as patch:
                fault(patch)
                wrong = wrong_sums(group, CPU, communication(group, **{"reduction": "flat", **how}), 600)
                assert (group.model.allreduce(wrong) > 0) == (name not in IN_TRAINING), name


SMALL = ("rounding of the sum not kept",)  # within what a repetition may differ by: found before the clock only
IN_TRAINING = ("error feedback not added", "a rank's buckets left out")  # acts only in training
Planted = tuple[Callable[[pytest.MonkeyPatch], None], dict[str, Any]]


def faults(group: "Group") -> dict[str, Planted]:
    from hpcai.comm.links import MpiLink
    from hpcai.gradients.reductions.reduction import Nested
    from hpcai.kernels.wire import numba_cpu as packing
    from hpcai.train.communication import Communication

    quantise, summed, nested = packing.quantise, Communication._summed, Nested.sum
    last, first = group.coordinates.member == group.degree - 1, group.coordinates.member == 0

    def unfed(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(packing, "add", lambda values, carried: packing.largest(values))

    def unkept(patch: pytest.MonkeyPatch) -> None:
        def forgetful(values: Any, scale: Any, q: Any, left: Any, add: bool = False) -> None:
            quantise(values, scale, q, left, add)
            left.zero_()

        patch.setattr(packing, "quantise", forgetful)

    def owner_forgets(patch: pytest.MonkeyPatch) -> None:
        def forgetful(values: Any, scale: Any, q: Any, left: Any, add: bool = False) -> None:
            quantise(values, scale, q, left.clone() if add else left, add)

        patch.setattr(packing, "quantise", forgetful)

    def own_scale(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(MpiLink, "largest", lambda self, number: None)

    def bucket_left_out(patch: pytest.MonkeyPatch) -> None:
        def partly(self: Any, gradients: Any, divisor: int, carried: Any) -> None:
            if last and divisor > 1:
                gradients.zero_()
            summed(self, gradients, divisor, carried)

        patch.setattr(Communication, "_summed", partly)

    def node_twice(patch: pytest.MonkeyPatch) -> None:
        def doubled(self: Any, vector: Any, links: Any, exchange: Any) -> None:
            def twice(part: Any, link: Any, start: int) -> None:
                exchange(part.mul_(2) if link.rank == 0 else part, link, start)

            nested(self, vector, links, twice)

        patch.setattr(Nested, "sum", doubled)

    def not_gathered(patch: pytest.MonkeyPatch) -> None:
        real = MpiLink.all_gather

        def stale(self: Any, part: Any, vector: Any) -> None:
            kept = vector.clone()
            real(self, part, vector)
            if first and self.name == "node":
                vector.copy_(kept)

        patch.setattr(MpiLink, "all_gather", stale)

    int8 = {"wire": "int8", "by": "mpi"}
    tree = {"reduction": "hierarchical", "by": "mpi"}
    return {
        "error feedback not added": (unfed, int8),
        "error feedback not kept": (unkept, int8),
        "rounding of the sum not kept": (owner_forgets, int8),
        "scale of one rank": (own_scale, int8),
        "a rank's buckets left out": (bucket_left_out, {"wire": "bf16", "by": "mpi"}),
        "part of a node twice": (node_twice, tree),
        "part not gathered": (not_gathered, tree),
    }


@pytest.mark.parallel(2)
def test_error_feedback_is_part_of_the_training_state() -> None:
    """After a snapshot is restored, also before any bucket exists, the training goes on with the same bits."""
    from tiny import CPU, bits, training, unending

    from hpcai.clock import Phases

    with grouped(1) as group:
        if group.degree == 1:
            return
        one, other, fresh = (training(group, samples=80, epochs=2, wire="int8", by="mpi") for _ in range(3))
        one.warm_up()
        other.warm_up()  # torch has arranged the buckets, on which the scales depend
        first = one.state.snapshot()
        assert all(not value.any() for value in first["feedback"].values())
        one.run_uncredited([0, 1])
        middle = one.state.snapshot()
        assert any(value.any() for value in middle["feedback"].values())
        fresh.state.restore(middle)  # there are no buckets yet
        assert bits(fresh.state.snapshot()["feedback"]) == bits(middle["feedback"])
        one.run_uncredited([2])
        other.state.restore(middle)
        other.run_uncredited([2])
        assert bits(one.state.snapshot()["module"]) == bits(other.state.snapshot()["module"])
        assert bits(one.state.snapshot()["feedback"]) == bits(other.state.snapshot()["feedback"])
        other.state.restore({**middle, "feedback": {}})
        other.run_uncredited([2])
        assert bits(one.state.snapshot()["module"]) != bits(other.state.snapshot()["module"])
        one.run(Phases(CPU), unending())


@pytest.mark.parallel(2)
def test_an_error_in_the_queue_ends_the_step() -> None:
    from tiny import training

    from hpcai.gradients.reductions.torus import Torus

    def broken(*_: Any) -> None:
        raise RuntimeError("connection lost")

    with grouped(1) as group, pytest.MonkeyPatch.context() as patch:
        if group.degree == 1:
            return
        made = training(group, samples=80, reduction="torus")
        patch.setattr(Torus, "sum", broken)
        with pytest.raises(RuntimeError, match="connection lost"):
            made.run_uncredited([0])
