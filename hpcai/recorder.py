"""Recorder of a run on rank 0: prints each test when it ends, keeps the files of the result folder up to date.

It verifies the files that it has written, as `--verify` does. Where they cannot be written any more, it writes them to
a folder below TMPDIR.
"""

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import torch
from msgspec import structs

from hpcai import clock, resumption
from hpcai.checkpoint import paths
from hpcai.comm import rank_watch
from hpcai.comm.world import World, agreed, broadcast
from hpcai.errors import HpcaiError
from hpcai.inputfile import Case, Problem
from hpcai.machine import scheduler
from hpcai.mllog import system
from hpcai.record.record import Record
from hpcai.record.result import Result
from hpcai.report import checksums, ended_tests, files
from hpcai.report.banner import banner
from hpcai.report.checksums import Digests
from hpcai.report.closing import closing, summary_of
from hpcai.report.entries import block, blocks
from hpcai.report.progress import ProgressLine
from hpcai.report.standard_output import StandardOutput
from hpcai.results.assembly import broken_off, ended, enter, failed_by
from hpcai.results.cells import cell
from hpcai.results.lost_groups import lost_groups
from hpcai.results.measured import Measured, Stopped
from hpcai.results.summary import sealed
from hpcai.verification import verify
from hpcai.verification.completeness import missing

# Time for writing files between tests: a fixed part, and a share of the run's time. Each writing is of all tests:
# without a bound a sweep would take time quadratic in its tests. What it leaves out is kept in a line of another file.
# The same bound holds for the time of verifying the files between tests.
WRITING_SECONDS, WRITING_SHARE = 2.0, 0.01
READ_BACK = 2**30  # bytes of files that a run reads again in one verification; larger ones only have to be there
MOST_KEPT = 20  # differences that are printed and recorded


class Recorder:
    """Prints and writes the results so far; does nothing on ranks other than 0."""

    def __init__(
        self,
        problem: Problem,
        world: World,
        head: Result,
        planned: int,
        device: torch.device,
        resumed: Path | None = None,
    ) -> None:
        """resumed: the folder of a run that was broken off, which this one goes on with. Collective over the world."""
        self.writes = world.rank == 0
        self.planned = planned
        self.result = head
        self._lock: int | None = None
        self.last = 0  # number of the test that was entered last, on the rank that writes
        self.ended = frozenset[int](agreed(world.comm, lambda: self._gone_on(resumed) if resumed else []))
        self._begun, self._written_seconds, self._verified_seconds = clock.now(), 0.0, 0.0
        if self.writes:
            self.line = ProgressLine(sys.stderr, planned)
            self._output = StandardOutput()
            self._folder = resumed or files.create_folder(
                str(problem.run["OUTPUT"]), clock.utc(), scheduler.job_label(os.environ)
            )
            own = str(self._folder.absolute())
            rank_watch.keep_in(str(self._folder.absolute() / checksums.BROKEN_OFF), f"bench.py --resume {own}")
            self._digests = Digests(self._folder)
            self._place: Path | None = self._folder  # of the last files that were written; None if there are none
            self._other: Path | None = None
            if problem.run["MLLOG"] == "on" and resumed is None:
                _write_system(self._folder, system.text(head, device))
            self._lock = self._lock or resumption.locked(self._folder)
            files.write(self._folder, sealed(self.result, planned), self._digests)  # or nothing is run
            ended_tests.remove(self._folder)
            self._verify()
            self._output.print("".join((banner(self.result), *blocks(self.result))))
        self.folder: str = broadcast(world.comm, str(self._folder.absolute()) if self.writes else "")

    def _gone_on(self, folder: Path) -> list[int]:
        """Go on with the result in a folder; the numbers of its tests."""
        self._lock = resumption.locked(folder)
        (folder / checksums.BROKEN_OFF).unlink(missing_ok=True)
        self.result = resumption.going_on(resumption.left(folder), self.result)
        for line in self.result.resumed[-1].differing:
            print(f"hpcai: resumed with other machine or software: {line}", file=sys.stderr, flush=True)
        return [entry.index for entry in ended(self.result)]

    def progress(self, case: Case, text: str, share: float) -> None:
        """Show on stderr the progress of a case: as text, and as a share."""
        if self.writes:
            self.line.show(case.index, text, share)

    def break_off(self, case: Case, cause: str, measured: Record | Stopped | None) -> None:
        """Keep the measurements of the case in which the run ended early."""
        if self.writes:
            raw = measured.raw if isinstance(measured, Stopped) else None
            self.result = structs.replace(self.result, broken_off=broken_off(case, cause, raw))

    def enter(self, case: Case, measured: Measured) -> None:
        """Add a complete case; claims that its raw measurements violate are printed on stderr."""
        if self.writes:
            before = self.result
            self.result, entry = enter(before, case, measured)
            self.last = case.index
            self.line.clear()
            for claim in failed_by(case, entry, self.result.environment):
                print(f"hpcai: test {case.index}: does not hold: {claim}", file=sys.stderr)
            self._keep(before)  # before it is printed: a launcher whose standard output is full ends the job
            self.line.clear()
            self._output.print(block(self.result, entry))

    def _keep(self, before: Result) -> None:
        """Write the files and verify them, as far as the bounds of time allow; else the new test alone."""
        most = WRITING_SECONDS + WRITING_SHARE * (clock.now() - self._begun)
        if self._written_seconds <= most or not self._kept_alone(before):
            self._write()
            if self._verified_seconds <= most:
                self._verify()

    def _kept_alone(self, before: Result) -> bool:
        """Keep the test by which the result has grown; whether that succeeded."""
        try:
            ended_tests.append(self._folder, before, self.result)
            paths.remove(self._folder, [self.last])
        except (HpcaiError, OSError):
            return False
        return True

    def _write(self) -> Result:
        begun, result = clock.now(), sealed(self.result, self.planned)
        try:
            files.write(self._folder, result, self._digests)
            self._place = self._folder
            ended_tests.remove(self._folder)
            paths.remove(self._folder, [entry.index for entry in ended(result)])
        except HpcaiError as error:
            self._place = self._elsewhere(result, error)
        self._written_seconds += clock.now() - begun
        return result

    def _elsewhere(self, result: Result, error: HpcaiError) -> Path | None:
        """Write the files to a folder below TMPDIR, and say so; the folder, or None if that fails as well."""
        self.line.clear()
        try:
            self._other = self._other or Path(tempfile.mkdtemp(prefix="hpcai-result-"))
            files.write(self._other, result)
            print(f"hpcai: {error}; the result is in {self._other}", file=sys.stderr, flush=True)
        except (HpcaiError, OSError) as another:
            print(f"hpcai: {error}; nor elsewhere: {another}", file=sys.stderr, flush=True)
            return None
        return self._other

    def _verify(self) -> None:
        """Read the files again; differences are printed on stderr and recorded, and make the result INVALID."""
        begun, known = clock.now(), self.result.unverified
        place = self._place
        read = [*_differences(place), *missing(self.result)] if place else []
        found = [difference for difference in read if difference not in known]
        if found and len(known) < MOST_KEPT:
            self.line.clear()
            for difference in found[: MOST_KEPT - len(known)]:
                print(f"hpcai: the result does not verify: {difference}", file=sys.stderr, flush=True)
            kept = (*known, *found)[:MOST_KEPT]
            self.result = structs.replace(self.result, unverified=kept)
        self._verified_seconds += clock.now() - begun

    def close(self) -> int:
        """Write the files, verify them, and print the end of the report; the exit code."""
        if not self.writes:
            return 0
        self._write()
        self._verify()
        result = self._write() if self.result.unverified else sealed(self.result, self.planned)
        with suppress(OSError):
            (self._folder / resumption.LOCK).unlink(missing_ok=True)
        self._output.print(closing(result))
        if self._place:
            names = files.listed(path.name for path in self._place.iterdir() if path.name[0] != ".")
            print(f"hpcai: {names} are in {self._place}", file=sys.stderr)
        summary = summary_of(result)
        outlasted = any(lost_groups(test) for test in result.tests)
        if self._output.lost or self._place != self._folder or outlasted or not summary.complete:
            return HpcaiError.exit_code
        return 1 if summary.failed or result.unverified else 0


def _differences(folder: Path) -> list[str]:
    """Differences of the written files from what follows from the result; each in one line of limited length."""
    try:
        found = verify.differences(folder / files.RESULT, READ_BACK)
    except HpcaiError as error:
        found = [str(error)]
    return [cell(difference) for difference in found]


def _write_system(folder: Path, description: str) -> None:
    """Write the system description of the MLPerf logs; without it the run goes on, and rank 0 says so."""
    try:
        files.write_system(folder, description)
    except HpcaiError as error:
        print(f"hpcai: no MLPerf logs: {error}", file=sys.stderr, flush=True)
