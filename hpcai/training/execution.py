"""Builds the execution of a group's training: data-parallel, or by the stages of a pipeline."""

from dataclasses import replace
from functools import partial

import torch

from hpcai.comm.grid import Group
from hpcai.comm.stage_links import StageLinks
from hpcai.comm.transfers import transfers
from hpcai.inputfile import Case
from hpcai.models.module import Network
from hpcai.train.channel_exchange import exchange_of, share_norms
from hpcai.train.communication import Communication, communication_of
from hpcai.train.compiled_execution import build_execution
from hpcai.train.execution import Execution
from hpcai.train.gradient_buckets import GradientBuckets
from hpcai.train.layerwise import Shards
from hpcai.train.pipeline import Pipeline
from hpcai.train.state import TrainingState
from hpcai.train.tied_step import counted_here


def execution_of(
    case: Case, group: Group, device: torch.device, module: Network, outputs: tuple[int, ...]
) -> Execution:
    """The execution of a module on its device; outputs: shape of a sample's logits. Collective over the group."""
    if group.divided.stages == 1:
        communication = communication_of(case, group, device)
        compiled = str(case.settings.get("COMPILE", "off"))
        return build_execution(compiled, module, group, device, communication)
    links = _stage_links(group, module, device)
    communication = communication_of(case, group, device, links)
    buckets = GradientBuckets(module, communication) if group.divided.replicas > 1 else None
    return Pipeline(module, communication, buckets, links, group.stages, case.chunks, outputs)


def _stage_links(group: Group, module: Network, device: torch.device) -> StageLinks:
    divided, place = group.divided, group.place
    members = [divided.member(replace(place, stage=number)) for number in range(divided.stages)]
    return StageLinks(group.stages, transfers(group.stages, members), device, module.received)


def share_numbers(
    state: TrainingState, execution: Execution, module: Network, group: Group, device: torch.device
) -> None:
    """Let loss scaler and optimiser of a divided model know the numbers of the other ranks of its replica."""
    if state.scaler and group.divided.parts > 1:
        state.scaler.shared = partial(largest_in_parts, execution.communication)
    if state.clipping and group.divided.parts > 1:
        parameters = module.named_parameters()
        elsewhere = frozenset(value for name, value in parameters if not counted_here(module, name))
        state.clipping.shards = Shards(partial(total_of_parts, execution.communication), elsewhere)
    if group.divided.shards > 1:
        share_norms(state, module, exchange_of(group, device).training)


def total_of_parts(communication: Communication, numbers: torch.Tensor) -> None:
    """Replace numbers by their sums over all ranks that share a replica, the same bits on each. Collective."""
    for links in (communication.exchange, communication.stages):
        if links is not None:
            links.total(numbers)


def largest_in_parts(communication: Communication, number: torch.Tensor) -> None:
    """Replace a number by the largest of those of all ranks that share a replica. Collective over these."""
    for links in (communication.exchange, communication.stages):
        if links is not None:
            links.largest(number)
