"""Failures of ranks, machines and files, what the program says of each, and the test that shows it: docs/FAILURES.md.

failures.py PAGE renews the page's table. `...` in a message stands for names and numbers.
"""

from typing import NamedTuple

from marked_table import renew

PROGRAM = "tests/failures.py"
LAUNCHER = "launcher's"  # of a rank that died: not 0
RESUME = "`--resume`"


class Failure(NamedTuple):
    """A failure: exit code, fixed words of the message on stderr, what remains, and a test as file.function."""

    what: str
    code: str
    message: str
    remains: str
    test: str


FAILURES = (
    Failure("a rank is killed or crashes", LAUNCHER, "was killed by signal ...", RESUME,
            "test_failure.test_sudden_end_of_one_rank_ends_the_job"),
    Failure("the same of a rank other than 0, Open MPI's `--with-ft mpi`", "3", "...; its group is lost",
            "the test goes on without the group",
            "test_outlasting.test_the_other_models_end_as_if_no_rank_had_been_lost"),
    Failure("the same, with no group left, or in a table", "3", "", "the report ends with BROKEN OFF; " + RESUME,
            "test_outlasting.test_a_run_whose_only_group_is_lost_is_broken_off_and_resumed"),
    Failure("a library ends a rank", LAUNCHER, "ended without a message, with exit code ...", RESUME,
            "test_failure.test_sudden_end_of_one_rank_ends_the_job"),
    Failure("an exception on one rank", "3", "raised ...", RESUME,
            "test_failure.test_exception_on_one_rank_ends_the_job_and_is_reported"),
    Failure("a rank leaves the program", "3", "left the program before the end", RESUME,
            "test_failure.test_exit_on_one_rank_ends_the_job_and_is_reported"),
    Failure("a rank stopped by SIGSTOP for `WATCHDOG` seconds", LAUNCHER, "was stopped by a signal", RESUME,
            "test_watchdog.test_a_rank_that_is_stopped_or_stuck_is_named_and_ends_the_job"),
    Failure("a rank stuck for `WATCHDOG` seconds", LAUNCHER, "made no step", RESUME,
            "test_watchdog.test_a_rank_that_is_stopped_or_stuck_is_named_and_ends_the_job"),
    Failure("SIGTERM, SIGINT, SIGUSR1 or SIGHUP to a rank", "3", "", "the report ends with BROKEN OFF; " + RESUME,
            "test_shutdown.test_a_signal_to_one_rank_ends_the_run_in_any_phase"),
    Failure("the same signal again, while a rank is stopped", LAUNCHER, "the job ends at the second ...", RESUME,
            "test_watchdog.test_a_second_signal_ends_a_job_with_a_stopped_rank_at_once"),
    Failure("`TIMELIMIT`", "3", "", "the report ends with BROKEN OFF; " + RESUME,
            "test_shutdown.test_time_limit_ends_the_run"),
    Failure("SIGHUP or SIGKILL to `mpirun`", LAUNCHER, "the launcher has ended, and with it the ranks",
            "the file BROKEN_OFF says so; " + RESUME,
            "test_watchdog.test_a_lost_terminal_ends_the_job_and_the_folder_says_so"),
    Failure("`srun` without an MPI", "2", "srun started them without an MPI", "nothing was begun",
            "test_slurm.test_srun_without_an_mpi_is_refused_with_the_types_to_name"),
    Failure("Open MPI's `mpirun` with MPICH", "2", "the launcher started ... by PMIx, but mpi4py uses ...",
            "nothing was begun", "test_refused.test_mpich_under_the_mpirun_of_open_mpi_is_refused_before_it_aborts"),
    Failure("a job of Slurm is cancelled", "3", "", "the report ends with BROKEN OFF; " + RESUME,
            "test_slurm.test_a_cancelled_job_ends_in_order_and_is_not_requeued"),
    Failure("a kill between two files of a result", LAUNCHER, "", "`--verify` says that the folder was broken off",
            "test_killed_writing.test_a_run_that_is_killed_between_two_files_is_broken_off_or_verifies"),
    Failure("a full disk", "3", "...; nor elsewhere: ...", "all rows are printed; files of the tests before",
            "test_full_disk.test_earlier_results_stay_when_the_disk_is_full"),
    Failure("the result folder is removed", "3", "...; the result is in ...", "all files, below `TMPDIR`",
            "test_full_disk.test_a_removed_folder_loses_no_row"),
    Failure("standard output is closed or full", "3",
            "cannot write the report to standard output: ...; files are written", "all files",
            "test_full_disk.test_a_report_that_cannot_be_printed_is_written"),
    Failure("a slow node or link, or wrong numbers of one", "1", "", "the table of `[health]` names it",
            "test_workload_health.test_a_host_with_a_slow_link_is_named_and_fails"),
    Failure("an interface that does not connect the nodes of a group", "2",
            "host ... has no network interface that all other hosts of a group can connect to: tried ...", "no row",
            "test_several_hosts.test_a_group_over_an_interface_that_leads_nowhere_is_refused"),
    Failure("an interface that a node lacks", "2", "host ... has no network interface for a group ...", "no row",
            "test_faults_on_hosts.test_a_missing_interface_is_refused_in_one_line"),
    Failure("MPI that does not connect the nodes", LAUNCHER, "... has waited ... s for ...; ... has the interfaces ...",
            "nothing was begun", "test_faults_on_hosts.test_what_mpi_waits_for_is_said_and_a_signal_ends_it"),
    Failure("a result folder that cannot be made", "3", "cannot make the result folder ...", "nothing was run",
            "test_refused.test_result_folder_that_cannot_be_made_ends_the_job_with_its_path"),
    Failure("too few descriptors (`ulimit -n`)", "2", "a rank may open ... files; allowed: at least ...",
            "nothing was run", "test_node_resources.test_too_few_descriptors_are_refused_in_one_line"),
    Failure("too little of /dev/shm", "2", "... bytes free; allowed: at least ... for ... ranks here",
            "nothing was run", "test_node_resources.test_too_little_shared_memory_is_refused_in_one_line"),
    Failure("a test that does not fit into memory", "2", "test ... does not fit: a rank needs ...",
            "nothing was run; the message names smaller settings",
            "test_parallel_memory.test_tensor_and_pipeline_mode_train_where_data_mode_has_too_little_memory"),
    Failure("memory runs out", "3", "ran out of memory: ...", "the message names smaller settings; " + RESUME,
            "test_memory.test_a_lack_of_memory_ends_the_job_and_names_smaller_settings"),
    Failure("staging without enough space", "3", "staging needs ... bytes in ...", "no copy stays",
            "test_staging.test_a_copy_that_cannot_be_made_ends_the_job"),
    Failure("a staged copy that is altered", "3", "holds data of SHA-256 ...; allowed: ...", "no copy stays",
            "test_staging.test_a_copy_that_cannot_be_made_ends_the_job"),
    Failure("a damaged dataset", "2", "... is damaged...", "nothing was run",
            "test_data_damage.test_program_names_the_damaged_file"),
    Failure("the shipped data are damaged", "2", "... is damaged: SHA-256 ...", "nothing was run",
            "test_data_damage.test_program_names_its_own_damaged_file"),
    Failure("the newest checkpoint is damaged", "0", "checkpoint left out: ...", "goes on from the one before",
            "test_resume.test_a_run_that_cannot_be_resumed_says_why"),
    Failure("a checkpoint that cannot be written", "0", "no checkpoint...", "the training goes on",
            "test_checkpoint.test_one_that_cannot_be_written_is_told_once_and_the_training_goes_on"),
    Failure("resumed on other ranks or with another input", "2", "cannot resume: ...; allowed: ...", "unchanged",
            "test_resume.test_a_run_that_cannot_be_resumed_says_why"),
    Failure("resumed while a run writes into the folder", "2", "a run writes into it; allowed: ...", "unchanged",
            "test_resume.test_two_runs_do_not_write_into_one_folder"),
    Failure("the last line of a search's journal is torn", "0", "the last line of the journal is torn",
            "the trial is trained anew", "test_search_resume.test_a_search_whose_files_are_damaged_says_which"),
    Failure("another line of the journal is altered", "3", "not the line that the search wrote of trial ...",
            "unchanged", "test_search_resume.test_a_search_whose_files_are_damaged_says_which"),
    Failure("weights of a search are missing or altered", "3", "...; trials can descend from trial ...; allowed: ...",
            "unchanged", "test_search_resume.test_a_search_whose_files_are_damaged_says_which"),
)  # fmt: skip


def table() -> str:
    """The rows in Markdown."""
    head = "| failure | exit code | message | what remains | test |\n|---|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(_cells(each))} |\n" for each in FAILURES)


def _cells(failure: Failure) -> tuple[str, ...]:
    file, _, function = failure.test.partition(".")
    message = f"`{failure.message}`" if failure.message else "-"
    return failure.what, failure.code, message, failure.remains, f"`{file}.py`: {function.replace('_', ' ')[5:]}"


if __name__ == "__main__":
    renew(PROGRAM, table())
