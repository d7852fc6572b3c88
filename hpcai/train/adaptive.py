"""Adam, AdamW and AdaGrad with state in fp32, for weights of 16 bits and for devices without torch's fused versions."""

import torch

from hpcai.train.fp32_state import Fp32State, Group, Step, Tensors, with_moments


class Adam(Fp32State):
    """Adam: options betas and eps; weight decay is added to the gradient."""

    names = ("exp_avg", "exp_avg_sq")

    def update(self, group: Group, step: Step) -> None:
        step, weights = decayed(group, step)
        moves = with_moments(group, step)
        step.replace(step.weights, torch._foreach_add(weights, moves, alpha=-group["lr"]))


class AdamW(Fp32State):
    """AdamW: options betas and eps."""

    names = ("exp_avg", "exp_avg_sq")

    def update(self, group: Group, step: Step) -> None:
        step, weights = step.unscaled(), [weight.float() for weight in step.weights]
        moves = with_moments(group, step)
        smaller = torch._foreach_mul(weights, 1 - group["lr"] * group["weight_decay"])
        step.replace(step.weights, torch._foreach_add(smaller, moves, alpha=-group["lr"]))


class AdaGrad(Fp32State):
    """AdaGrad: option eps; weight decay is added to the gradient."""

    names = ("sum",)

    def update(self, group: Group, step: Step) -> None:
        step, weights = decayed(group, step)
        (sums,) = step.state.values()
        step.replace(sums, torch._foreach_add(sums, torch._foreach_mul(step.gradients, step.gradients)))
        roots = torch._foreach_sqrt(sums)
        torch._foreach_add_(roots, group["eps"])
        moves = torch._foreach_div(step.gradients, roots)
        step.replace(step.weights, torch._foreach_add(weights, moves, alpha=-group["lr"]))


def decayed(group: Group, step: Step) -> tuple[Step, Tensors]:
    """The step with weight decay added to its gradients, and the weights; both in fp32."""
    step, weights = step.unscaled(), [weight.float() for weight in step.weights]
    # Not in place: gradients of fp32 weights are the parameters' own.
    gradients = torch._foreach_add(step.gradients, weights, alpha=group["weight_decay"])
    return step._replace(gradients=list(gradients)), weights
