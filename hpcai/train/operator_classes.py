"""Classes of torch's operators: the table of the shares of time by operator class."""

import re

CONVOLUTION, MATRIX, ELEMENTWISE, NORMALISATION, OTHER = CLASSES = (
    "convolution",
    "gemm",
    "elementwise",
    "normalisation",
    "other",
)

# Names without namespace, direction and in-place mark: aten::relu_, aten::relu and ReluBackward0 are `relu`. A name
# stands for the work of that operator itself; whatever it calls has a name of its own.
_TABLE = {
    CONVOLUTION: """
        conv1d conv2d conv3d convolution convolution_overrideable conv_depthwise2d mkldnn_convolution
        cudnn_convolution cudnn_convolution_relu cudnn_convolution_add_relu miopen_convolution
        convolution_input convolution_weight GeneratedBackwardFor_hpcai_convolution_default
        miopen_depthwise_convolution slow_conv2d slow_conv2d_forward thnn_conv2d nnpack_available
        nnpack_spatial_convolution convolution_pointwise""",
    MATRIX: """
        linear linear_pointwise mkldnn_linear mkl_linear matmul mm addmm addmm_activation addmv mv bmm baddbmm
        scaled_dot_product_attention scaled_dot_product_flash_attention scaled_dot_product_flash_attention_for_cpu
        scaled_dot_product_efficient_attention scaled_dot_product_cudnn_attention scaled_dot_product_attention_math
        flash_attention_forward efficient_attention_forward cudnn_attention_forward
        causal_attention scaled_mm int_mm dense dense_input dense_weight GeneratedBackwardFor_hpcai_dense_default""",
    ELEMENTWISE: """
        add sub rsub mul div neg addcmul addcdiv lerp relu threshold clamp clamp_min clamp_max masked_fill where
        maximum minimum abs sign reciprocal sqrt rsqrt square pow exp log log2 floor remainder nan_to_num
        sigmoid tanh gelu silu sin cos smooth_l1_loss binary_cross_entropy_with_logits log_sigmoid log_sigmoid_forward
        eq ne lt le gt ge bitwise_not bitwise_and bitwise_or logical_not logical_and logical_or
        __and__ __or__ isfinite isnan""",
    NORMALISATION: """
        batch_norm batch_norm_impl_index batch_norm_stats batch_norm_elemt batch_norm_update_stats
        batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_with_update batch_norm_no_update
        native_batch_norm native_batch_norm_legit cudnn_batch_norm miopen_batch_norm sync_batch_norm
        batch_norm_known GeneratedBackwardFor_hpcai_batch_norm_default
        rms_norm added_norm fused_rms_norm layer_norm native_layer_norm group_norm native_group_norm instance_norm""",
    OTHER: """
        max_pool2d max_pool2d_with_indices mkldnn_max_pool2d avg_pool2d adaptive_avg_pool2d mean
        upsample_bilinear2d upsample_nearest2d embedding embedding_dense result_type type_as
        cross_entropy_loss log_softmax softmax nll_loss nll_loss_nd nll_loss_forward sum argmax max all any
        empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like ones ones_like full new_zeros
        zero fill copy copy_from to to_copy clone contiguous resize resize_as set record_stream
        roi_align sort topk amax amin prod arange scalar_tensor full_like
        cat stack index index_select gather scatter scatter_add local_scalar_dense item
        view view_as reshape reshape_alias unsafe_view as_strided t transpose permute expand expand_as broadcast_tensors
        squeeze unsqueeze flatten unflatten unbind select
        slice narrow split split_with_sizes chunk alias detach lift_fresh resolve_conj resolve_neg
        accumulategrad copyslices copybackwards
        record_param_comms""",
}
# Ranges and namespaces whose every name is of one class: optimisers, communication, the driver, compiled code.
_OTHER_PREFIXES = (
    "Optimizer.",
    "aten::_fused_",
    "aten::_foreach_",
    "aten::_amp_",
    "c10d::",
    "gloo:",
    "nccl:",
    "DistributedDataParallel",
    "torch::distributed::",
    "cuda",
    "Torch-Compiled Region",
    "CompiledFunction",
)
_DIRECTION = re.compile(r"_?backward(_data|_reduce|_elemt)?\d*_?$")


def _bare(name: str) -> str:
    """The operator's name without namespace, direction and in-place mark."""
    return _DIRECTION.sub("", name.rpartition("::")[2].lower()).replace("_", "")


_CLASS = {_bare(name): kind for kind, names in _TABLE.items() for name in names.split()}


def operator_class(name: str) -> str | None:
    """The class of an operator or range by its name in torch's profiler; None if it is not in the table."""
    name = name.removeprefix("autograd::engine::evaluate_function: ")
    return OTHER if name.startswith(_OTHER_PREFIXES) else _CLASS.get(_bare(name))
