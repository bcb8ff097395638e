# Runs a program for at most $1 seconds: its status, or nothing if it has no end, and its output, of
# which 1 MB is kept, are in $folder. A broken GPU can hold a process that no signal ends, so the wait
# is for a file instead.
bounded() {
    limit=$1
    shift
    rm -f "$folder/status"
    (
        {
            timeout -k 2 "$limit" "$@" 2>&1
            echo $? >"$folder/ended"
        } | head -c 1048576 >"$folder/output"
        mv "$folder/ended" "$folder/status"
    ) </dev/null >/dev/null 2>&1 &
    waited=0
    while [ ! -e "$folder/status" ] && [ "$waited" -lt $((limit + 3)) ]; do
        sleep 1
        waited=$((waited + 1))
    done
    status=$(cat "$folder/status" 2>/dev/null)
}

# Asks nvidia-smi for $1 and prints the different values, or UNKNOWN and why.
asked() {
    bounded 5 "${NVIDIA_SMI:-nvidia-smi}" -i @DEVICES@ "$1" --format=csv,noheader
    values=$(sort -u "$folder/output" 2>/dev/null | tr -cd '\n -~' | paste -sd ' ' - | cut -c 1-160)
    [ "$status" = 0 ] || values="UNKNOWN nvidia-smi $1: exit status ${status:-none within 5 s}: $values"
    echo "$values"
}

# Prints UNKNOWN or SKIPPED with a reason where nothing should be measured: other GPUs, or with `idle`
# GPUs that are in use.
hindered() {
    what="all-reduce of @BYTES@ bytes:"
    values=$(asked --query-gpu=compute_cap)
    case $values in
    @CAPABILITY@) ;;
    UNKNOWN*) echo "UNKNOWN $what ${values#UNKNOWN }" ;;
    *) echo "UNKNOWN $what GPUs of compute capability $values, and the floor is that of @CAPABILITY@" ;;
    esac
    [ "$values:$1" = "@CAPABILITY@:idle" ] || return 0
    values=$(asked --query-compute-apps=pid)
    case $values in
    '') ;;
    UNKNOWN*) echo "UNKNOWN $what ${values#UNKNOWN }" ;;
    *) echo "SKIPPED $what processes use the GPUs: $values" ;;
    esac
}

# Runs nccl-tests for at most $1 seconds, and prints PASS, FAIL or UNKNOWN with a reason.
all_reduce() (
@VISIBLE@    bounded "$1" "${ALL_REDUCE_PERF:-all_reduce_perf}" -b @BYTES@ -e @BYTES@ -g @GPUS@ -c 0
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

# Prints the verdict of a measurement of at most $1 seconds. With `idle` as $2 it is SKIPPED if
# processes use the GPUs before, or after a bad one.
all_reduce_verdict() (
    export LC_ALL=C
    verdict=
    if folder=$(mktemp -d); then
        trap 'rm -rf "$folder"' EXIT
        verdict=$(hindered "${2:-}")
        verdict=${verdict:-$(all_reduce "$1")}
        case $verdict in
        FAIL*)
            hindered=$(hindered "${2:-}")
            verdict=${hindered:-$verdict}
            ;;
        esac
    fi
    echo "${verdict:-UNKNOWN all-reduce of @BYTES@ bytes: no verdict; are mktemp and awk there?}"
)
