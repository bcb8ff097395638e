@MEASURE@
tell() { echo "topo-expect: ${NODE_NAME:-this node}: $1"; }
# Asks Kubernetes; without an answer the container ends, is started again, and measures again.
ask() {
    timeout -k 2 "${KUBECTL_SECONDS:-30}" kubectl "$@" && return
    tell "$word kubectl $1 failed: exit status $?" >&2
    exit 1
}

result=$(all_reduce_verdict "${ALL_REDUCE_SECONDS:-120}" idle)
word=${result%% *}
tell "$result"
case $word in
PASS)
    taints=$(ask get node "$NODE_NAME" -o jsonpath='{.spec.taints[*].key}') || exit
    case " $taints " in
    *" topo-all-reduce "*) ask taint node "$NODE_NAME" topo-all-reduce- ;;
    esac
    ;;
FAIL) ask taint node "$NODE_NAME" topo-all-reduce=fail:NoSchedule --overwrite ;;
*) exec sleep 3600 ;;
esac
exec sleep infinity
