"""Faults in which weights are judged."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from planting import Fault, replaced

from hpcai.train import classifier_ensemble
from hpcai.train.validation import Validation, ValidationResult


def first_weights_validated() -> Fault:
    """A copy of the weights before the training is validated, as a best epoch's would be."""

    def make(genuine: Callable[..., Any]) -> Any:
        kept: list[Any] = []

        def evaluate(self: Validation, module: Any, *arguments: Any) -> Any:
            kept[:] = kept or [deepcopy(module)]
            return genuine(self, kept[0], *arguments)

        return evaluate

    return replaced(Validation, "_evaluate", make)


def weights_swapped_while_validated() -> Fault:
    """The training's own module has other weights while it is validated, and its own ones before and after."""

    def make(genuine: Callable[..., Any]) -> Any:
        def evaluate(self: Validation, module: Any, *arguments: Any) -> Any:
            kept = deepcopy(module.state_dict())
            for value in module.parameters():
                value.data.mul_(1.01)
            found = genuine(self, module, *arguments)
            module.load_state_dict(kept)
            return found

        return evaluate

    return replaced(Validation, "_evaluate", make)


def every_sample_counted_as_correct() -> Fault:
    """A validation counts samples, whatever their class."""

    def make(genuine: Callable[..., Any]) -> Any:
        def evaluate(self: Validation, *arguments: Any) -> Any:
            _, counted, *others = genuine(self, *arguments)
            return counted, counted, *others

        return evaluate

    return replaced(Validation, "_evaluate", make)


def run_reports_more_than_counted() -> Fault:
    """A validation reports a tenth more correct samples than it counted."""

    def make(genuine: Callable[..., ValidationResult]) -> Any:
        def run(*arguments: Any) -> ValidationResult:
            found = genuine(*arguments)
            correct = found.correct or 0
            return replace(found, correct=correct + max(1, correct // 10))

        return run

    return replaced(Validation, "run", make)


def least_likely_class_predicted() -> Fault:
    """A validation takes the class with the smallest output for the predicted one."""

    def make(genuine: Callable[..., Any]) -> Any:
        def evaluate(self: Validation, module: Any, *arguments: Any) -> Any:
            hook = module.register_forward_hook(lambda network, inputs, outputs: -outputs)
            found = genuine(self, module, *arguments)
            hook.remove()
            return found

        return evaluate

    return replaced(Validation, "_evaluate", make)


def ensemble_of_other_weights() -> Fault:
    """The ensemble is evaluated with a copy of the weights, slightly changed."""

    def make(genuine: Callable[..., Any]) -> Any:
        def evaluate(module: Any, *arguments: Any) -> Any:
            other = deepcopy(module)
            for value in other.parameters():
                value.data.mul_(1.001)
            return genuine(other, *arguments)

        return evaluate

    return replaced(classifier_ensemble, "evaluate", make)
