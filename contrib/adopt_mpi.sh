#!/usr/bin/env bash
# Let an environment start its ranks by an mpirun, and its mpi4py use the library of that MPI:
#   adopt_mpi.sh ENVIRONMENT MPIRUN
# It writes ENVIRONMENT/bin/mpirun, and ends with 1, without that file, if two ranks do not find each other.
# CONSTRAINTS and WHEELHOUSE are those of `make`.
set -euo pipefail
environment=$1 mpirun=$2
family=$("$mpirun" --version 2>&1 || true)
linked=

# Open MPI's mpirun needs these to do unasked what MPICH's does: to run as root and with more ranks than cores, to
# fill one host after the other (without `slot` all ranks go to the first), and to leave the cores to the program.
# Versions 4 and 5; what is set already stays.
OPEN_MPI='export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=${OMPI_MCA_rmaps_base_oversubscribe-1}
export OMPI_MCA_hwloc_base_binding_policy=${OMPI_MCA_hwloc_base_binding_policy-none}
export PRTE_MCA_rmaps_default_mapping_policy=${PRTE_MCA_rmaps_default_mapping_policy-slot:oversubscribe}
export PRTE_MCA_hwloc_default_binding_policy=${PRTE_MCA_hwloc_default_binding_policy-none}'

say() { echo "set-up: $*"; }
is_open_mpi() { grep -qE 'Open MPI|OpenRTE' <<<"$family"; }  # Debian's names itself OpenRTE as mpirun.openmpi

write_launcher() {
	rm -f "$environment/bin/mpirun"  # a wheel's may be a link
	{ echo '#!/bin/bash'
	  ! is_open_mpi || echo "$OPEN_MPI"
	  if [ "$(dirname "$mpirun")" = "$environment/bin" ]; then echo "exec \"\$(dirname \"\$0\")/${mpirun##*/}\" \"\$@\""
	  else printf 'exec %q "$@"\n' "$mpirun"; fi
	} >"$environment/bin/mpirun"
	chmod +x "$environment/bin/mpirun"
}

# Two ranks find each other; with a library that is not mpirun's own they are two jobs of one rank.
two_ranks() {
	local program='from mpi4py import MPI; print(MPI.COMM_WORLD.size)'
	[ "$(timeout 60 "$environment/bin/mpirun" -np 2 "$environment/bin/python" -P -c "$program" 2>/dev/null |
		tr -dc 0-9)" = 22 ]
}

# mpi4py's wheel first looks into lib/ of the environment, for the names below. Debian's MPICH has another name, which
# the loader does not accept for it: there a library without contents is made that needs the other.
link_library() {
	local prefix name library
	prefix=$(dirname "$(dirname "$(readlink -f "$mpirun")")")
	for name in $(if is_open_mpi; then echo libmpi.so.40; else echo libmpi.so.12 libmpich.so.12; fi); do
		for library in "$prefix"/lib{,64}{,/*}/"$name"; do
			[ -e "$library" ] || continue
			linked=$environment/lib/${name/mpich/mpi}
			case $name in
			libmpich*) "${CC:-cc}" -shared -o "$linked" -Wl,-soname,libmpi.so.12 -Wl,--no-as-needed \
				-Wl,-rpath,"$(dirname "$library")" "$library" ;;
			*) ln -sf "$library" "$linked" ;;
			esac
			return
		done
	done
	return 1
}

build_mpi4py() {
	local mpicc source=()
	mpicc=$(dirname "$mpirun")/$(basename "$mpirun" | sed -E 's/^mpi(run|exec)/mpicc/')  # Debian: mpicc.mpich
	[ -x "$mpicc" ] || mpicc=$(dirname "$mpirun")/mpicc
	[ -x "$mpicc" ] || return
	[ -z "$linked" ] || rm -f "$linked"
	[ -z "${WHEELHOUSE-}" ] || source=(--no-index --find-links "$WHEELHOUSE")
	say "building mpi4py with $mpicc"
	PIP_USER=0 MPI4PY_BUILD_MPICC="$mpicc" "$environment/bin/python" -m pip --disable-pip-version-check install \
		"${source[@]}" ${CONSTRAINTS:+-c "$CONSTRAINTS"} --force-reinstall --no-deps --no-cache-dir \
		--no-binary mpi4py mpi4py
}

write_launcher
if two_ranks || { link_library && two_ranks; } || { build_mpi4py && two_ranks; }; then say "MPI: $mpirun"
else
	rm -f "$environment/bin/mpirun" ${linked:+"$linked"}
	exit 1
fi
