"""What a worker of a search suggests: networks and kernel sizes within the limits of the input."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hpcai import networks
from hpcai.estimate import Facts
from hpcai.inputfile import parse
from hpcai.networks.lineage import morphed
from hpcai.networks.morphism import KERNEL_SIZES, Deepen
from hpcai.record.trial import Hyperparameters
from hpcai.search.memory_limit import MemoryLimit
from hpcai.search.messages import FinishedTrial
from hpcai.search.proposal import Proposal
from hpcai.search.suggester import INSERTED, Suggester
from hpcai.search.weights_file import weights_file

INPUT = """\
A search
of networks with few parameters
[nas]
fashion  DATASET
resnet8  NETWORK
1        GROUPS
1        DEGREE
32       BATCH
random   STRATEGY
"""
INITIAL = networks.build("resnet8", (28, 28), 1, 10, "v1")
DEEPER = (Deepen("stem_relu", 3),)  # the convolution has 16 channels


def parameters(morphisms: Sequence[networks.morphism.Morphism]) -> int:
    return sum(morphed(INITIAL, morphisms).parameters.values())


def suggested(folder: Path, most: int) -> list[Proposal]:
    """Proposals of many rounds after the warm-up, derived from a network with an inserted convolution."""
    case = parse(f"{INPUT}{most} PARAMETERS\n", name="input.dat").cases(1)[0]
    memory = MemoryLimit(case.settings, Facts(data_bytes=0, samples=100, image_bytes=784), 0, 2**40, corrects=False)
    suggester = Suggester(case, 0, INITIAL, memory, folder)
    weights_file(folder, 1).touch()
    suggester.learn([FinishedTrial(1, 1, 0.5, 0.5, True, DEEPER, Hyperparameters(batch=32, kernel=3))])
    return [proposal for round_ in range(100, 110) for proposal in suggester.suggest(round_, 0)]


def inserted(proposal: Proposal) -> list[int]:
    """Sides of the kernels of convolutions that morphisms inserted; 1 x 1 kernels have no size that is searched."""
    graph = morphed(INITIAL, (*proposal.ancestry, *proposal.morphisms))
    sides = {layer.name: layer.op.kernel[0] for layer in graph.layers if isinstance(layer.op, networks.layers.Conv)}
    return [side for name, side in sides.items() if name.startswith(INSERTED) and side in KERNEL_SIZES]


@pytest.mark.parametrize(("room", "largest"), [(5_000, 3), (7_000, 5), (10**6, 7)])
def test_kernel_sizes_are_those_that_the_limits_leave(tmp_path: Path, room: int, largest: int) -> None:
    """A kernel of 5 has 4,096 weights more than one of 3; one of 7, 10,240 more."""
    most = parameters(DEEPER) + room
    found = suggested(tmp_path, most)
    assert found and all(parameters((*each.ancestry, *each.morphisms)) <= most for each in found)
    assert all(min(inserted(each)) >= each.hyperparameters.kernel for each in found if inserted(each))
    assert max(each.hyperparameters.kernel for each in found if each.parent == 1) >= largest
