"""What finds the planted faults of which no test has a table of checks, by the fault's name."""

from collections.abc import Mapping

from hpcai.record import check_declarations as declared
from hpcai.results.table import CALL_CLOCKS

FOUND_BY: Mapping[str, str] = {
    "time_divided_by_1000": declared.BOUND.name,
    "time_divided_by_100000": declared.BOUND.name,
    "cycles_not_computed": declared.BOUND.name,
    "processor_not_in_the_table": "nobody: no fault; the bound is NOT CHECKED",
    "labels_in_the_images": declared.CEILING.name,
    "batch_lost_by_the_ensemble": "the run ends with 3: too few batches to evaluate together",
    "part_not_gathered": declared.SUMS.name,
    "overflow_on_one_rank": "nobody: no fault; the step is skipped, and counted as skipped",
    "skipped_step_credited": declared.EXECUTED.name,
    "overflowed_step_taken": declared.DEVIATION.name,
    "gradients_unscaled_by_half": declared.LOST.name,
    "full": "the run ends with 3: staging needs more bytes than are free",
    "spoiled_later": "the run ends with 3: SHA-256 of the copy",
    "product": "residual of the row in the table of kernels",
    "products_in_half_the_time": CALL_CLOCKS.name,
    "half_of_the_calls": CALL_CLOCKS.name,
    "collectives_in_half_the_time": CALL_CLOCKS.name,
    "element": "wrong elements of the row in the table of collectives",
}
