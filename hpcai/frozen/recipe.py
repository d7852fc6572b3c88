"""The recipe of a training, from the KEYs of its case alone: rates, hyper-parameters, batch, loss.

Sources: linear scaling, Goyal et al. (2017); by the square root, Krizhevsky (2014); half cosine, Loshchilov and Hutter
(2017); label smoothing, Szegedy et al. (2016).
"""

from collections.abc import Mapping
from math import cos, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcai.frozen.order import positions_of_step, steps_of_epoch

Settings = Mapping[str, Any]

# By optimiser: name of the class, options by their KEYs, EPSILON where the input says 0.
_CLASSES = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "adagrad": "Adagrad", "lars": "Lars", "lamb": "Lamb"}
_EPSILON = {"adam": 1e-8, "adamw": 1e-8, "adagrad": 1e-10, "lamb": 1e-6}


def replicas(settings: Settings) -> int:
    """Replicas of a model that train on samples of their own."""
    match settings.get("PARALLEL", "data"):
        case "data":
            return int(settings["DEGREE"])
        case "mixed":
            return int(str(settings["SPLIT"]).split("x")[0])
    return 1


def batch(settings: Settings) -> int:
    """Samples of a replica in a full step: those of all its ranks together."""
    return int(settings["BATCH"]) * int(settings["DEGREE"]) // replicas(settings)


def step_samples(settings: Settings, step: int, draws: int) -> int:
    """Samples of a replica in a step of an epoch of so many draws."""
    return len(positions_of_step(step, draws, 0, replicas(settings), batch(settings)))


def steps(settings: Settings, draws: int) -> int:
    """Optimiser steps of an epoch of so many draws."""
    return steps_of_epoch(draws, replicas(settings), batch(settings))


def rate(settings: Settings, step: int, steps_per_epoch: int) -> float:
    """The learning rate of an optimiser step, from 0, over all epochs."""
    peak = settings["LEARNRATE"] * _scale(settings["SCALING"], settings["BATCH"] * settings["DEGREE"] / 256)
    rising, total = settings["WARMUP"] * steps_per_epoch, settings["EPOCHS"] * steps_per_epoch
    if step < rising:
        return float(peak * (step + 1) / (rising + 1))
    left = (total - step) / max(total - rising, 1)
    return float(peak * _falling(settings["SCHEDULE"], left))


def _scale(how: str, batches: float) -> float:
    match how:
        case "linear":
            return batches
        case "sqrt":
            return float(batches**0.5)
    return 1.0


def _falling(schedule: str, left: float) -> float:
    """Share of the peak rate after the warm-up, where a share `left` of the steps is left."""
    match schedule:
        case "cosine":
            return (1 - cos(pi * left)) / 2
        case "linear":
            return left
        case "polynomial":
            return left * left
    return 1.0


def optimiser(settings: Settings) -> tuple[str, Mapping[str, float]]:
    """Name of the optimiser's class, and the options of all its groups of parameters except rate and decay."""
    name = str(settings["OPTIMISER"])
    epsilon = settings["EPSILON"] or _EPSILON.get(name, 0.0)
    match name:
        case "sgd":
            options = {"momentum": settings["MOMENTUM"], "dampening": 0.0, "nesterov": 0.0}
        case "lars":
            options = {"momentum": settings["MOMENTUM"], "trust": settings["TRUST"]}
        case "adagrad":
            options = {"eps": epsilon, "lr_decay": 0.0}
        case _:
            options = {"betas.0": settings["BETA1"], "betas.1": settings["BETA2"], "eps": epsilon}
    return _CLASSES[name], {**options, "maximize": 0.0, "clip": settings.get("CLIP", 0.0)}


def decay(settings: Settings, dimensions: int) -> float:
    """Weight decay of a parameter of so many dimensions: none of biases and batch norm."""
    return float(settings["DECAY"]) if dimensions >= 2 else 0.0


def cross_entropy(
    settings: Settings, logits: NDArray[np.float64], labels: NDArray[np.int64]
) -> tuple[float, NDArray[np.float64]]:
    """Mean cross entropy of logits [n, classes] with the labels, smoothed by SMOOTHING; and its gradient by them."""
    smoothing = settings.get("SMOOTHING", 0.0)
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    wanted = np.full(logits.shape, smoothing / logits.shape[1])
    wanted[np.arange(len(labels)), labels] += 1 - smoothing
    return float(-(wanted * np.log(chances)).sum(1).mean()), (chances - wanted) / len(labels)
