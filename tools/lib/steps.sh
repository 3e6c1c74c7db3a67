# Shell functions: steps with progress, and cleaning up. Sourced by the scripts in tools/.
# shellcheck shell=bash

LOGS=$ROOT/build/log
STEP_PGID=
CLEANUPS=()

# Whether progress may be drawn on one line that is rewritten.
if [[ -t 2 && ${TERM:-dumb} != dumb ]]; then INTERACTIVE=1; else INTERACTIVE=; fi

say() { printf '%s\n' "$*" >&2; }

# fail STATUS LINE...: say what went wrong, one line each, and exit.
fail() {
    local status=$1
    shift
    printf '%s\n' "$@" >&2
    exit "$status"
}

# at_exit COMMAND...: run the command when the script ends, last one first.
at_exit() {
    local quoted
    printf -v quoted '%q ' "$@"
    CLEANUPS=("$quoted" "${CLEANUPS[@]}")
}

_run_cleanups() {
    local status=$? command
    trap - EXIT
    trap '' INT TERM HUP
    if [[ -n $STEP_PGID ]]; then kill -TERM -- "-$STEP_PGID" 2>/dev/null; fi
    for command in "${CLEANUPS[@]}"; do eval "$command"; done
    exit "$status"
}

trap _run_cleanups EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# stop_process PID: end a process that we started, politely first.
stop_process() {
    kill -TERM "$1" 2>/dev/null || return 0
    local i
    for ((i = 0; i < 50; i++)); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$1" 2>/dev/null
    wait "$1" 2>/dev/null
    return 0
}

# last_line FILE [WIDTH]: the last line with something on it, shortened, without control characters; of a
# compiler's command line only how far ninja is and which file it compiles, and nothing of its warnings.
last_line() {
    tail -c 4000 "$1" 2>/dev/null | tr '\r' '\n' | LC_ALL=C tr -d '\000-\011\013-\037' |
        sed -n -e '/^ *$/d' -e '/^WARNING: Location/d' -e '/^ *[0-9]* *|/d' -e '/: \(warning\|note\): /d' \
            -e '/^ *In file included from /d' -e '/^ *from .*[:,]$/d' -e '/: In .*function /d' \
            -e 's|^ *\(\[[0-9]*/[0-9]*\]\) .*/\([^/ ]*\)$|\1 \2|' -e 's/^ *//' -e p |
        tail -n 1 | cut -c "1-${2:-60}"
}

# step NAME TITLE HINT COMMAND...: run COMMAND with its output in build/log/NAME.log, showing progress.
# When it fails: which step, the end of its log and HINT, and the script ends with status 1.
step() {
    local name=$1 title=$2 hint=$3 log pid status start shown=0 elapsed
    shift 3
    mkdir -p "$LOGS"
    log=$LOGS/$name.log
    start=$SECONDS
    # A process group of its own, so that Ctrl-C here ends all of it.
    set -m
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    set +m
    STEP_PGID=$pid
    if [[ -z $INTERACTIVE ]]; then say "==> $title ..."; fi
    while kill -0 "$pid" 2>/dev/null; do
        elapsed=$((SECONDS - start))
        if [[ -n $INTERACTIVE ]]; then
            printf '\r\033[K==> %s  %d:%02d  %s' "$title" $((elapsed / 60)) $((elapsed % 60)) "$(last_line "$log")" >&2
        elif ((elapsed >= shown + 20)); then
            shown=$elapsed
            say "    $((elapsed / 60)):$(printf %02d $((elapsed % 60))) $(last_line "$log" 100)"
        fi
        sleep 0.3
    done
    wait "$pid"
    status=$?
    STEP_PGID=
    elapsed=$((SECONDS - start))
    if [[ -n $INTERACTIVE ]]; then printf '\r\033[K' >&2; fi
    if ((status == 0)); then
        say "==> $title: done in $elapsed s"
        return
    fi
    say "==> $title: FAILED (exit status $status) after $elapsed s. The end of its log:"
    tail -n 25 "$log" | sed 's/^/    | /' >&2
    fail 1 "    Whole log: $log" "    What to do: $hint"
}

# fingerprint PATH...: a hash over the contents and names of all files under the paths.
fingerprint() {
    find "$@" -type f ! -name '*.pyc' ! -path '*/__pycache__/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
}

# stamped FILE VALUE: whether the stamp file holds the value.
stamped() { [[ -f $1 && $(<"$1") == "$2" ]]; }
