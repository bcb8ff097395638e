# Runs a program for at most $1 seconds: its status, or nothing if it has no end, and its output, of
# which 1 MB is kept, are in $folder. A broken GPU can hold a process that no signal ends, so the wait
# is for a file instead.
bounded() {
    limit=$1
    shift
    rm -f "$folder/status"
    (
        {
            timeout -k 2 "$limit" "$@" 2>&1 &
            echo $! >"$folder/process"
            wait $!
            echo $? >"$folder/ended"
            rm -f "$folder/process"
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
    bounded "${smi_seconds:-15}" "${NVIDIA_SMI:-nvidia-smi}" -i @DEVICES@ "$1" --format=csv,noheader
    values=$(sort -u "$folder/output" 2>/dev/null | tr -cd '\n -~' | paste -sd ';' - | cut -c 1-160)
    [ "$status" = 0 ] || values="UNKNOWN nvidia-smi $1: exit status ${status:-none in time}: $values"
    echo "$values"
}

# Prints UNKNOWN with a reason if the GPUs have another compute capability, or another name than
# GPU_NAME, or are unlike each other.
other_gpus() {
    values=$(asked --query-gpu=compute_cap,name)
    case $values in
    UNKNOWN*) echo "UNKNOWN $what ${values#UNKNOWN }" ;;
    *";"*) echo "UNKNOWN $what different GPUs: $values" ;;
    "@CAPABILITY@, ${GPU_NAME:-${values#@CAPABILITY@, }}") ;;
    *) echo "UNKNOWN $what GPUs are $values, and the floor is that of @CAPABILITY@, ${GPU_NAME:-any name}" ;;
    esac
}

# Prints UNKNOWN or SKIPPED with a reason if processes use the GPUs, and $1 is `idle`.
in_use() {
    [ "$1" = idle ] || return 0
    values=$(asked --query-compute-apps=pid)
    case $values in
    '') ;;
    UNKNOWN*) echo "UNKNOWN $what ${values#UNKNOWN }" ;;
    *) echo "SKIPPED $what processes use the GPUs: $values" ;;
    esac
}

# Runs nccl-tests for at most $1 seconds, and prints PASS, FAIL or UNKNOWN with a reason.
all_reduce() (
@VISIBLE@    bounded "$1" "${ALL_REDUCE_PERF:-all_reduce_perf}" -b @BYTES@ -e @BYTES@ -g @GPUS@ -w 1 -n 5 -c 0
    awk -v status="$status" -v limit="$limit" -v bytes=@BYTES@ -v gpus=@GPUS@ -v floor=@FLOOR@ '
        function unknown(why) { print "UNKNOWN all-reduce of " bytes " bytes: " why }
        { gsub(/[^ -~]/, " ") }
        $1 == "#" && $2 == "Rank" { ranks++ }
        $1 == "#" && $2 == "size" { for (column = 3; column < NF && $column != "busbw"; ) column++; if ($column != "busbw") column = 0 }
        $1 == bytes { rows++; gbps = $(column > 3 ? column - 1 : 8) }
        /^# Avg bus bandwidth/ { whole++ }
        error == "" && /[Ee]rror|[Ff]ail|NCCL WARN/ { error = substr($0, 1, 160) }
        NF > 0 { last = substr($0, 1, 160) }
        END {
            if (status == "" || status == 124 || status == 137) unknown("no end within " limit " s")
            else if (status != 0) unknown("exit status " status ": " (error == "" ? last : error))
            else if (ranks != gpus) unknown("it ran on " ranks + 0 " GPUs, and the floor is that of " gpus)
            else if (rows == 0) unknown("the output has no row of this size")
            else if (!whole || gbps !~ /^[0-9]+[.]?[0-9]*$/ || gbps == 0) unknown("the output has no bandwidth")
            else print (gbps + 0 < floor + 0 ? "FAIL" : "PASS") " all-reduce of " bytes " bytes: " gbps " GB/s, floor " floor
        }' "$folder/output" 2>/dev/null
)

# Prints the verdict of a measurement of at most $1 seconds. With `idle` as $2 it is SKIPPED if
# processes use the GPUs before, or after a bad one.
all_reduce_verdict() (
    export LC_ALL=C
    what="all-reduce of @BYTES@ bytes:"
    case $1 in
    '' | 0* | *[!0-9]* | ??????*)
        echo "UNKNOWN $what ALL_REDUCE_SECONDS=$1: expected seconds" | tr -cd '\n -~'
        return
        ;;
    esac
    verdict=
    if folder=$(mktemp -d); then
        trap 'rm -rf "$folder"' EXIT
        trap 'kill "$(cat "$folder/process")" 2>/dev/null; exit 1' HUP INT TERM
        verdict=$(other_gpus)
        verdict=${verdict:-$(in_use "${2:-}")}
        verdict=${verdict:-$(all_reduce "$1")}
        case $verdict in
        FAIL*)
            used=$(in_use "${2:-}")
            verdict=${used:-$verdict}
            ;;
        esac
    fi
    echo "${verdict:-UNKNOWN $what no verdict; are mktemp and awk there?}"
)
