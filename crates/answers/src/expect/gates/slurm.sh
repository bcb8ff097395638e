# ALL_REDUCE_PERF names nccl-tests' program. ALL_REDUCE_SECONDS limits its time; GPU_NAME,
# if set, is the only name of GPUs to measure.

# Slurm gives these programs no search path.
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

@MEASURE@
tell() {
    echo "topo-expect: $1" >&2
    logger -t topo-expect -- "$1" 2>/dev/null
}

result=$(all_reduce_verdict "${ALL_REDUCE_SECONDS:-$seconds}" idle)
case $result in
PASS*) ;;
FAIL*)
    tell "$result"
    timeout -k 2 "${SCONTROL_SECONDS:-10}" scontrol update NodeName="${SLURMD_NODENAME:-$(hostname -s)}" State=DRAIN \
        Reason="${result#FAIL }" || tell "FAIL scontrol could not drain this host: exit status $?"
    exit 1
    ;;
*) tell "$result" ;;
esac
exit 0
