"""The planted faults by class and module: one line each. Checks that find them stand in the tests that plant them.

found_by.py has what finds the faults of which no test has a table of checks. docs/FAULTS.md is made of both:
python tests/fault_table.py docs/FAULTS.md
"""

from collections.abc import Mapping

CLASSES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "clock": {
        "clock_faults": (
            "half_the_clock",
            "a_phase_in_half",
            "step_times_tenfold",
            "a_step_outside_the_clock",
            "a_backward_pass_outside_the_clock",
        ),
        "limit_faults": (
            "time_divided_by_1000",
            "time_divided_by_100000",
            "cycles_not_computed",
            "processor_not_in_the_table",
        ),
        "wrong_table": ("products_in_half_the_time", "half_of_the_calls", "collectives_in_half_the_time"),
    },
    "work not done": {
        "training_faults": (
            "step_left_out",
            "step_left_out_by_one_model",
            "step_without_backward",
            "step_on_half_a_batch",
            "layer_skipped",
        ),
        "rank_faults": ("convolutions_not_updated",),
        "detection_faults": ("proposals_frozen",),
        "step_faults": (
            "no_update_unless_audited",
            "no_backward_pass_in_every_second_step",
            "trained_before_the_clock",
        ),
    },
    "network": {
        "network_faults": (
            "relu_left_out",
            "shortcut_left_out",
            "block_of_a_stage_twice",
            "epsilon_of_batch_norm",
            "momentum_of_running_statistics",
            "head_without_bias",
            "borders_repeated",
            "initial_weights_halved",
            "initial_weights_uniform",
            "scales_of_batch_norm_halved",
        ),
        "language_faults": ("positions_left_out", "mask_off_by_one"),
    },
    "gradients": {
        "rank_faults": (
            "gradient_of_a_rank_dropped",
            "gradient_of_a_layer_dropped",
            "gradient_of_a_layer_dropped_by_a_rank",
            "gradients_summed",
            "stale_gradients",
        ),
        "precision_faults": ("gradients_unscaled_by_half", "overflow_on_one_rank", "overflowed_step_taken"),
        "shard_faults": (
            "partial_sum_of_a_rank_dropped",
            "own_channels_of_the_last_rank_lost",
            "gradient_of_gathered_channels_not_summed",
            "summand_of_a_rank_dropped",
            "gradient_of_divided_rows_not_summed",
        ),
        "language_faults": ("gradients_not_clipped", "norm_of_one_tensor"),
        "step_faults": ("old_gradients_unless_audited", "one_layer_with_old_gradients"),
        "stage_faults": (
            "wrong_micro_batch_in_a_stage",
            "gradients_of_a_micro_batch_lost",
            "micro_batch_trained_twice",
            "one_micro_batch",
            "tied_gradients_not_added",
            "gradient_of_one_copy",
            "norm_of_both_copies",
        ),
    },
    "all-reduce": {
        "training_faults": (
            "contribution_dropped",
            "first_element_lost",
            "last_element_lost",
            "mpi_sum_wrong",
            "gradients_not_averaged",
            "statistics_not_averaged",
        ),
        "gradient_faults": (
            "error_feedback_not_added",
            "error_feedback_not_kept",
            "rounding_of_the_sum_not_kept",
            "scale_of_one_rank",
            "buckets_of_a_rank_left_out",
            "part_of_a_node_twice",
            "part_not_gathered",
        ),
        "stage_faults": ("replica_not_averaged",),
        "wrong_table": ("element",),
    },
    "data": {
        "data_faults": ("labels_in_the_images",),
        "rank_faults": ("shard_of_another_rank", "sample_trained_twice", "first_batch_again_and_again"),
        "training_faults": ("model_trained_on_all_samples",),
        "staging_faults": ("full", "spoiled_later"),
        "language_faults": ("next_bytes_of_another_sequence",),
        "content_faults": (
            "validation_images_in_training",
            "every_tenth_image_of_validation",
            "data_opened_with_validation_in_training",
            "labels_shifted",
            "labels_of_the_next_sample",
            "mean_wrong",
            "deviation_wrong",
            "images_mirrored",
            "images_shifted_by_a_pixel",
            "images_resized_by_nearest",
            "same_order_in_every_epoch",
            "order_of_another_seed",
            "bootstrap_of_another_model",
            "half_a_batch_twice",
            "half_a_batch_twice_with_the_indices_of_all",
        ),
    },
    "recipe": {
        "rank_faults": (
            "rate_one_percent_too_high",
            "momentum_forgotten",
            "momentum_ten_percent_too_small",
            "decay_forgotten",
            "smoothing_forgotten",
        ),
        "training_faults": ("batch_of_another_size", "model_diverges"),
        "recipe_faults": (
            "schedule_of_another_kind",
            "decay_of_zero",
            "momentum_of_a_half",
            "smoothing_of_zero",
            "rate_not_scaled",
            "warm_up_of_an_epoch",
        ),
        "optimiser_faults": (
            *("first_moment_not_kept", "second_moment_not_kept", "other_beta1", "other_beta2"),
            *("wrong_bias_correction", "decay_left_out", "norms_decay", "rate_one_percent_too_high"),
            *("rate_ten_percent_too_high", "a_layer_not_updated", "squares_not_kept", "other_epsilon"),
            *("velocity_not_kept", "other_momentum", "other_trust", "trust_of_a_model"),
        ),
        "shard_faults": (
            *("norms_of_a_shard_for_those_of_the_tensor", "norm_of_a_shards_weights"),
            *("norm_of_a_shards_move", "numbers_of_shards_not_summed"),
        ),
    },
    "weights": {
        "training_faults": ("parameter_off_by_one_bit",),
        "rank_faults": (
            "stale_weights",
            "bit_flipped_after_training",
            "bit_flipped_between_epochs",
            "statistic_changed_between_epochs",
            "bit_flipped_in_a_step",
        ),
        "step_faults": ("statistics_without_momentum",),
        "evaluation_faults": ("models_identical",),
        "search_faults": ("parent_weights_of_another_search",),
        "detection_faults": ("detectors_identical",),
    },
    "evaluation": {
        "judgement_faults": (
            *("first_weights_validated", "weights_swapped_while_validated", "ensemble_of_other_weights"),
            *("every_sample_counted_as_correct", "run_reports_more_than_counted", "least_likely_class_predicted"),
        ),
        "vote_faults": (
            *("ensemble_counts_more_correct", "vote_counted_twice", "disagreement_doubled", "out_of_bag_in_the_bag"),
            "members_counted_more",
        ),
        "language_faults": ("half_of_the_bits",),
        "content_faults": ("validation_on_training_images", "last_validation_on_half_of_the_samples"),
        "evaluation_faults": (
            *("sample_evaluated_twice", "batch_not_asked_for", "sample_evaluated_twice_by_the_ensemble"),
            *("batch_lost", "batch_delivered_twice", "batch_lost_by_the_ensemble"),
            "batch_delivered_twice_to_the_ensemble",
        ),
        "detection_faults": (
            "frames_left_out",
            "frames_delivered_twice",
            "frames_beyond_the_last",
            "frame_found_twice",
            "frames_delivered_twice_to_the_ensemble",
            "frames_met_twice",
        ),
        "shard_faults": ("channels_of_a_rank_lost_in_evaluation", "channels_in_another_order_in_evaluation"),
        "stage_faults": ("outputs_of_other_samples", "earlier_micro_batch_evaluated"),
    },
    "kernels": {
        "evaluation_faults": (
            "element_of_product_wrong",
            "product_wrong",
            "product_not_a_number",
            "element_of_weight_gradient_lost",
        ),
        "kernel_faults": (
            "last_channel_not_computed",
            "border_of_input_gradient_lost",
            "tap_of_weight_gradient_lost",
            "nothing_added_in_evaluation",
            "nothing_cut_off_in_evaluation",
            "batch_norm_backward_lacks_a_term",
            "statistics_not_kept",
            "variance_not_that_of_a_sample",
        ),
        "wrong_table": ("product",),
        "language_faults": (
            *("queries_and_keys_exchanged", "gradient_of_keys_lost"),
            *("gradient_of_a_norm_lacks_a_term", "gradient_of_a_sum_lost"),
        ),
    },
    "counts": {
        "training_faults": ("last_batch_credited_in_full",),
        "precision_faults": ("skipped_step_credited",),
        "data_faults": ("loading_not_summed_over_ranks", "loading_counted_twice"),
        "shard_faults": ("each_shard_credited",),
        "resumption_faults": (
            "work_of_earlier_jobs_forgotten",
            "findings_of_earlier_jobs_forgotten",
            "trials_of_earlier_jobs_not_counted",
            "clock_of_a_search_begins_anew",
        ),
        "stage_faults": ("each_stage_credited",),
    },
    "files": {
        "file_faults": (
            *("report_written_wrong", "result_written_wrong", "series_written_short", "kernels_written_wrong"),
            *("sums_written_wrong", "history_written_wrong", "history_altered_after_the_search"),
            "weights_written_wrong",
        ),
    },
    "result": {
        "file_faults": ("samples_altered_after_measurement", "ranks_miscounted"),
    },
    "checks left out": {
        "file_faults": (
            *("arrivals_not_compared", "phases_not_added_up", "second_clock_not_read", "network_not_checked"),
        ),
    },
}
