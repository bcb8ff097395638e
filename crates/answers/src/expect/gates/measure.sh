# Runs nccl-tests for at most $1 seconds, and prints PASS, FAIL or UNKNOWN with a reason.
all_reduce_verdict() (
    limit=$1
    program=${ALL_REDUCE_PERF:-all_reduce_perf}
    folder=$(mktemp -d) || exit
    export LC_ALL=C
    trap 'rm -rf "$folder"' EXIT
@VISIBLE@    # A broken GPU can hold a process that no signal ends, so the wait is for a file instead.
    (
        timeout -k 5 "$limit" "$program" -b @BYTES@ -e @BYTES@ -g @GPUS@ -c 0 >"$folder/output" 2>&1
        echo $? >"$folder/ended"
        mv "$folder/ended" "$folder/status"
    ) </dev/null >/dev/null 2>&1 &
    waited=0
    while [ ! -e "$folder/status" ] && [ "$waited" -lt $((limit + 10)) ]; do
        sleep 1
        waited=$((waited + 1))
    done
    status=$(cat "$folder/status" 2>/dev/null)
    awk -v status="$status" -v limit="$limit" -v bytes=@BYTES@ -v gpus=@GPUS@ -v floor=@FLOOR@ '
        function unknown(why) { print "UNKNOWN all-reduce of " bytes " bytes: " why }
        { gsub(/[^ -~]/, " ") }
        $1 == "#" && $2 == "Rank" { ranks++ }
        $1 == bytes { rows++ }
        /^# Avg bus bandwidth/ { average = $6 }
        error == "" && /[Ee]rror|[Ff]ail|NCCL WARN/ { error = substr($0, 1, 160) }
        NF > 0 { last = substr($0, 1, 160) }
        END {
            if (status == "" || status == 124 || status == 137) unknown("no end within " limit " s")
            else if (status != 0) unknown("exit status " status ": " (error == "" ? last : error))
            else if (ranks != gpus) unknown("it ran on " ranks + 0 " GPUs, and the floor is that of " gpus)
            else if (rows == 0) unknown("the output has no row of this size")
            else if (average !~ /^[0-9]+[.]?[0-9]*$/ || average == 0) unknown("the output has no bandwidth")
            else print (average < floor ? "FAIL" : "PASS") " all-reduce of " bytes " bytes: " average " GB/s, floor " floor
        }' "$folder/output" 2>/dev/null
)
