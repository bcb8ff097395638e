@MEASURE@
result=$(all_reduce_verdict "${ALL_REDUCE_SECONDS:-120}")
echo "topo-expect: $result"
case $result in
PASS*) exit 0 ;;
FAIL*) exit 1 ;;
*) exit 3 ;;
esac
