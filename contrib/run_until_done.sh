#!/bin/sh
# Run the benchmark on N ranks, and go on with it from its checkpoints as often as it is broken off:
#     contrib/run_until_done.sh N [INPUT] [--set KEY=VALUE ...]
# MPIRUN and PYTHON name the launcher and the interpreter, TRIES how often it is resumed at most (100).
# It ends with the code of the last job: 0 all tests passed, 1 a test failed, 2 illegal input.
ranks=${1:?usage: run_until_done.sh N [INPUT] [--set KEY=VALUE ...]}
shift
left=${TRIES:-100}
bench=$(dirname "$0")/../bench.py

launch() {
    "${MPIRUN:-mpirun}" -np "$ranks" "${PYTHON:-python}" "$bench" "$@"
}

launch "$@"
code=$?
while [ "$code" -gt 2 ] && [ "$left" -gt 0 ]; do
    left=$((left - 1))
    folder=$(ls -dt results/*/ 2>/dev/null | head -n 1)
    [ -n "$folder" ] || break
    echo "run_until_done.sh: ended with $code; resuming $folder" >&2
    launch --resume "$folder"
    code=$?
done
exit "$code"
