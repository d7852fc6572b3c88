"""Records of the preflight checks and choices."""

from typing import Annotated, Literal

from msgspec import Meta

from hpcai.record.record import Count, Name, NonNegative, Positive, PositiveSeconds, Record, Sha256, about

COMPARED_STEPS = 4
StepLosses = Annotated[tuple[float, ...], Meta(min_length=COMPARED_STEPS, max_length=COMPARED_STEPS)]
OneLoss = Annotated[tuple[float, ...], Meta(min_length=1, max_length=1)]
Kernel = Literal["conv2d", "gemm"]
Direction = Literal["forward", "input_gradient", "weight_gradient"]


class Worst(Record, kw_only=True):
    """The largest value of a check over all ranks, and its location."""

    value: Annotated[NonNegative, about("largest value over all ranks")]
    where: Annotated[str, about("where it occurred")]


class NetworkCheck(Record, kw_only=True):
    """The network before its first step, against second implementations of its forward pass and its weights."""

    weights: Annotated[Worst, about("initial weights: standard errors off their distribution, the worst tensor")]
    outputs: Annotated[
        Worst | None,
        about("deviation of an output or a layer's from the NumPy forward pass / bound; null where not compared"),
    ] = None


CheckedNetwork = Annotated[
    NetworkCheck | None,
    about("the network before its first step, against second implementations; null in older results"),
]


class WrongElements(Record, kw_only=True):
    """Most wrong elements of one integer product."""

    value: Annotated[Count, about("number of wrong elements")]
    where: Annotated[str, about("product")]


class Residuals(Record, kw_only=True):
    """Residuals of the provider's products at the layer shapes of the network."""

    scaled: Annotated[Worst, about("HPL's scaled residual")]
    elementwise: Annotated[Worst, about("the element-wise residual")]
    wrong: Annotated[WrongElements | None, about("int8 only: product with most wrong elements")] = None


class PrecisionProbe(Record, kw_only=True):
    """The network's heaviest layer, forward and backward, in fp32 and in the precision of the test."""

    fp32_seconds: Annotated[PositiveSeconds, about("time in fp32", unit="s")]
    seconds: Annotated[PositiveSeconds, about("time in the precision of the test", unit="s")]
    converted: Annotated[bool, about("whether a rank computes 16-bit convolutions in fp32")]


class ComparedLosses(Record, kw_only=True):
    """Losses by custom kernels and by the vendor's from the same weights on the same batch."""

    custom: Annotated[StepLosses, about("losses by the custom kernels, step by step")]
    vendor: Annotated[StepLosses, about("losses by the vendor's kernels, step by step")]
    rounding: Annotated[NonNegative, about("largest change of a loss when weights are perturbed by one rounding")]


class EvaluatedLoss(ComparedLosses, kw_only=True):
    """The loss in evaluation after these steps."""

    custom: Annotated[OneLoss, about("loss by the custom kernels")]
    vendor: Annotated[OneLoss, about("loss by the vendor's kernels")]


class ComparedLayer(Record, kw_only=True):
    """The layer whose values by custom kernels deviate most from the vendor's."""

    where: Annotated[Name, about("name of the layer")]
    deviation: Annotated[NonNegative, about("norm of the difference of custom and vendor values")]
    rounding: Annotated[NonNegative, about("norm of the change when weights are perturbed by one rounding")]
    norm: Annotated[NonNegative, about("norm of the vendor's values")]


class VendorComparison(Record, kw_only=True):
    """Training steps by custom kernels, compared with the same steps by the vendor's kernels."""

    losses: Annotated[ComparedLosses, about("losses of training steps")]
    gradient: Annotated[ComparedLayer, about("gradients: layer with the largest deviation")]
    statistics: Annotated[
        ComparedLayer | None,
        about("running statistics of batch norms: layer with the largest deviation; null without batch norms"),
    ]
    custom_seconds: Annotated[PositiveSeconds, about("forward and backward pass by the custom kernels", unit="s")]
    vendor_seconds: Annotated[PositiveSeconds, about("forward and backward pass by the vendor's kernels", unit="s")]
    evaluated: Annotated[EvaluatedLoss | None, about("classifiers only: loss in evaluation after these steps")] = None


class Forward(Record, kw_only=True):
    """Seconds of a layer's forward pass, by who computes it."""

    vendor: Annotated[PositiveSeconds, about("by the vendor's kernels", unit="s")]
    mixed: Annotated[PositiveSeconds, about("by the vendor's kernels, called from the custom operator", unit="s")]
    custom: Annotated[PositiveSeconds, about("by the custom kernels", unit="s")]


class Backward(Record, kw_only=True):
    """Seconds of a layer's backward pass, by which gradients are custom."""

    vendor: Annotated[PositiveSeconds, about("by the vendor's kernels", unit="s")]
    mixed: Annotated[PositiveSeconds, about("by the vendor's kernels, called from the custom operator", unit="s")]
    custom: Annotated[PositiveSeconds, about("all gradients by custom kernels", unit="s")]
    input_gradient: Annotated[
        PositiveSeconds | None, about("input gradient by the custom kernel, weight gradient by the vendor's", unit="s")
    ] = None
    weight_gradient: Annotated[
        PositiveSeconds | None, about("weight gradient by the custom kernel, input gradient by the vendor's", unit="s")
    ] = None


class TimedProduct(Record, kw_only=True):
    """A product of the network's layers, timed by each provider, and which directions became custom."""

    kernel: Annotated[Kernel, about("convolution or matrix product")]
    shape: Annotated[str, about("shape of the product")]
    layers: Annotated[Positive, about("layers of that shape")]
    forward: Annotated[Forward, about("seconds of the forward pass of a layer")]
    backward: Annotated[Backward, about("seconds of the backward pass of a layer")]
    custom: Annotated[tuple[Direction, ...], about("directions that the custom kernels compute")]


class TimedNormalisation(Record, kw_only=True):
    """Batch norms, RMS norms or attentions of one shape, timed by each provider."""

    shape: Annotated[str, about("shape, and what is fused with a batch norm")]
    layers: Annotated[Positive, about("layers of that shape")]
    vendor: Annotated[PositiveSeconds, about("by the vendor's kernels", unit="s")]
    custom: Annotated[PositiveSeconds, about("by the custom kernels", unit="s")]
    chosen: Annotated[bool, about("whether the custom kernel computes it")]


class WholeStep(Record, kw_only=True):
    """A training step of the whole network."""

    vendor: Annotated[PositiveSeconds, about("all layers by the vendor's kernels", unit="s")]
    chosen: Annotated[PositiveSeconds, about("with the kernels chosen layer by layer", unit="s")]
    custom_step: Annotated[
        PositiveSeconds | None,
        about("all by custom kernels, which compute a residual block as one; null in older results", unit="s"),
    ] = None


class KernelChoice(Record, kw_only=True):
    """KERNELS auto: what was timed layer by layer, and what was chosen."""

    rounds: Annotated[Positive, about("rounds of timing")]
    products: Annotated[tuple[TimedProduct, ...], about("products of convolutions and dense layers, by shape")]
    normalisations: Annotated[tuple[TimedNormalisation, ...], about("batch norms, RMS norms and attention, by shape")]
    whole: Annotated[
        WholeStep | None, about("a step of the whole network; null in older results where no custom kernel was faster")
    ]


SiteFunction = Literal["convolve", "multiply"]


class SiteKernels(Record, kw_only=True):
    """Kernels of a file that KERNELS file:PATH names."""

    sha256: Annotated[Sha256, about("SHA-256 of the file")]
    computes: Annotated[tuple[SiteFunction, ...], about("functions of the file that are used")]
