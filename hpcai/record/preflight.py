"""Records of what is checked and chosen before the clock starts."""

from typing import Annotated, Literal

from msgspec import Meta

from hpcai.record.record import Count, Name, NonNegative, Positive, PositiveSeconds, Record, Sha256, about

COMPARED_STEPS = 4
StepLosses = Annotated[tuple[float, ...], Meta(min_length=COMPARED_STEPS, max_length=COMPARED_STEPS)]
OneLoss = Annotated[tuple[float, ...], Meta(min_length=1, max_length=1)]
Kernel = Literal["conv2d", "gemm"]
Direction = Literal["forward", "input_gradient", "weight_gradient"]


class Worst(Record, kw_only=True):
    """The worst value of a check over all ranks, and where it was found."""

    value: Annotated[NonNegative, about("the value")]
    where: Annotated[str, about("where it was found")]


class WrongElements(Record, kw_only=True):
    """Most wrong elements of one integer product."""

    value: Annotated[Count, about("how many elements are wrong")]
    where: Annotated[str, about("of which product")]


class Residuals(Record, kw_only=True):
    """Residuals of the products that the provider computes at the layer shapes of the network."""

    scaled: Annotated[Worst, about("HPL's scaled residual")]
    elementwise: Annotated[Worst, about("the element-wise residual")]
    wrong: Annotated[WrongElements | None, about("of products of int8")] = None


class PrecisionProbe(Record, kw_only=True):
    """The network's heaviest layer, forward and backward, in fp32 and in the precision of the test."""

    fp32_seconds: Annotated[PositiveSeconds, about("in fp32", unit="s")]
    seconds: Annotated[PositiveSeconds, about("in the precision of the test", unit="s")]
    converted: Annotated[bool, about("whether a rank computes 16-bit convolutions in fp32")]


class ComparedLosses(Record, kw_only=True):
    """Losses by custom kernels and by the vendor's from the same weights on the same batch."""

    custom: Annotated[StepLosses, about("by the custom kernels, step by step")]
    vendor: Annotated[StepLosses, about("by the vendor's kernels, step by step")]
    rounding: Annotated[NonNegative, about("largest change by weights that are altered by one rounding")]


class EvaluatedLoss(ComparedLosses, kw_only=True):
    """The loss in evaluation after these steps."""

    custom: Annotated[OneLoss, about("by the custom kernels")]
    vendor: Annotated[OneLoss, about("by the vendor's kernels")]


class ComparedLayer(Record, kw_only=True):
    """The layer whose values by custom kernels deviate most from the vendor's."""

    where: Annotated[Name, about("name of the layer")]
    deviation: Annotated[NonNegative, about("norm of the difference")]
    rounding: Annotated[NonNegative, about("norm of the change by weights that are altered by one rounding")]
    norm: Annotated[NonNegative, about("norm of the vendor's values")]


class VendorComparison(Record, kw_only=True):
    """Training steps by custom kernels, compared with the same steps by the vendor's kernels."""

    losses: Annotated[ComparedLosses, about("training losses")]
    gradient: Annotated[ComparedLayer, about("gradients of weights")]
    statistics: Annotated[ComparedLayer, about("running statistics of batch norms")]
    custom_seconds: Annotated[PositiveSeconds, about("a pass by the custom kernels", unit="s")]
    vendor_seconds: Annotated[PositiveSeconds, about("a pass by the vendor's kernels", unit="s")]
    evaluated: Annotated[EvaluatedLoss | None, about("the loss in evaluation, of classifiers")] = None


class Forward(Record, kw_only=True):
    """Seconds of a layer's forward pass, by who computes it."""

    vendor: Annotated[PositiveSeconds, about("by the vendor", unit="s")]
    mixed: Annotated[PositiveSeconds, about("by the vendor's kernel, called from the custom operator", unit="s")]
    custom: Annotated[PositiveSeconds, about("by the custom kernel", unit="s")]


class Backward(Record, kw_only=True):
    """Seconds of a layer's backward pass, by which gradients are custom."""

    vendor: Annotated[PositiveSeconds, about("by the vendor", unit="s")]
    mixed: Annotated[PositiveSeconds, about("by the vendor's kernels, called from the custom operator", unit="s")]
    custom: Annotated[PositiveSeconds, about("all gradients by custom kernels", unit="s")]
    input_gradient: Annotated[PositiveSeconds | None, about("only the input's gradient custom", unit="s")] = None
    weight_gradient: Annotated[PositiveSeconds | None, about("only the weights' gradient custom", unit="s")] = None


class TimedProduct(Record, kw_only=True):
    """A product of the network's layers, timed by each provider, and which directions became custom."""

    kernel: Annotated[Kernel, about("convolution or matrix product")]
    shape: Annotated[str, about("shape of the product")]
    layers: Annotated[Positive, about("layers of that shape")]
    forward: Annotated[Forward, about("forward pass")]
    backward: Annotated[Backward, about("backward pass")]
    custom: Annotated[tuple[Direction, ...], about("directions that the custom kernels compute")]


class TimedNormalisation(Record, kw_only=True):
    """Batch norms of one shape, timed by each provider."""

    shape: Annotated[str, about("shape, and what is computed with the batch norm at once")]
    layers: Annotated[Positive, about("batch norms of that shape")]
    vendor: Annotated[PositiveSeconds, about("by the vendor", unit="s")]
    custom: Annotated[PositiveSeconds, about("by the custom kernel", unit="s")]
    chosen: Annotated[bool, about("whether the custom kernel computes it")]


class WholeStep(Record, kw_only=True):
    """A training step of the whole network."""

    vendor: Annotated[PositiveSeconds, about("all by the vendor", unit="s")]
    chosen: Annotated[PositiveSeconds, about("with the chosen kernels", unit="s")]


class KernelChoice(Record, kw_only=True):
    """KERNELS auto: what was timed layer by layer, and what was chosen."""

    rounds: Annotated[Positive, about("rounds of timing")]
    products: Annotated[tuple[TimedProduct, ...], about("convolutions and dense layers")]
    normalisations: Annotated[tuple[TimedNormalisation, ...], about("batch norms")]
    whole: Annotated[WholeStep | None, about("a whole step; null where nothing custom was faster")]


SiteFunction = Literal["convolve", "multiply"]


class SiteKernels(Record, kw_only=True):
    """Kernels of a file that KERNELS file:PATH names."""

    sha256: Annotated[Sha256, about("SHA-256 of the file")]
    computes: Annotated[tuple[SiteFunction, ...], about("functions of the file that are used")]
