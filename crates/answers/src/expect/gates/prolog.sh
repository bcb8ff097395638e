#!/bin/sh
@HEAD@# A prolog for jobs that take the whole host: it drains a host whose all-reduce is below the floor.
# A host that cannot be measured is UNKNOWN, neither good nor bad: the prolog says so on standard
# error and in the system's log, and ends with 0, because Slurm drains a host for any other status.
# ALL_REDUCE_PERF names nccl-tests' program. ALL_REDUCE_SECONDS limits its time.

# Slurm gives prologs no search path.
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

@MEASURE@
tell() {
    echo "topo-expect: $1" >&2
    logger -t topo-expect -- "$1" 2>/dev/null
}

result=$(all_reduce_verdict "${ALL_REDUCE_SECONDS:-120}")
case $result in
PASS*) ;;
FAIL*)
    tell "$result"
    timeout -k 5 30 scontrol update NodeName="${SLURMD_NODENAME:-$(hostname -s)}" State=DRAIN \
        Reason="${result#FAIL }"
    # Slurm drains the host for this status, too.
    exit 1
    ;;
*) tell "${result:-UNKNOWN all-reduce of @BYTES@ bytes: no verdict; are mktemp and awk there?}" ;;
esac
exit 0
