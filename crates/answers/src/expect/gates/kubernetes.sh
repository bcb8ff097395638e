@MEASURE@
tell() { echo "topo-expect: ${NODE_NAME:-this node}: $1"; }
# The taint of this node is set ($1: what of it), or the container ends, and Kubernetes starts it again.
taint() {
    timeout -k 2 "${KUBECTL_SECONDS:-30}" kubectl taint node "$NODE_NAME" "$1" --overwrite && return
    tell "FAIL kubectl could not taint this node: exit status $?"
    exit 1
}
has_taint() {
    timeout -k 2 "${KUBECTL_SECONDS:-30}" kubectl get node "$NODE_NAME" -o jsonpath='{.spec.taints[*].key}' |
        grep -q topo-all-reduce
}

result=$(all_reduce_verdict "${ALL_REDUCE_SECONDS:-120}" idle)
tell "$result"
case $result in
PASS*) ! has_taint || taint topo-all-reduce- ;;
FAIL*) taint topo-all-reduce=fail:NoSchedule ;;
*) exec sleep 3600 ;;
esac
exec sleep infinity
