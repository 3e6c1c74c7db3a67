#!/bin/bash
# Runs as root in the virtual machine of tests/vm_check.py, under its systemd and Linux: one line a check on the
# second serial line, "ok" or "FAILED" first, "figure" before a measured value; what is run goes to the first one.
exec >/dev/ttyS0 2>&1
set -x
export LC_ALL=C
stty -F /dev/ttyS1 raw -echo
NAME=org.edgettsd.Speech1
CALL=(busctl call --timeout=100 "$NAME" /org/edgettsd/Speech1 "$NAME")
GROUP=/sys/fs/cgroup/system.slice/edgettsd.service
DROP_IN=/run/systemd/system/edgettsd.service.d/check.conf
TEXT="The quick brown fox jumps over the lazy dog."

check() {
    local name=$1
    shift
    if "$@"; then
        name="ok $name"
    else
        name="FAILED $name"
        journalctl -q -b -o short-precise -n 20
    fi
    echo "$name" >/dev/ttyS1
}
figure() { echo "figure $*" >/dev/ttyS1; }
show() { systemctl show -P "$1" edgettsd.service; }
is() { [[ $(show "$1") == "$2" ]]; }
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.2
    done
}
# with LINE...: restart the service with these lines under [Service].
with() {
    mkdir -p "${DROP_IN%/*}"
    printf '%s\n' "[Service]" "ExecStart=" "ExecStart=/usr/bin/edgettsd --engine scripted:frames=40" "TimeoutStartSec=300" \
        "WatchdogSec=0" "$@" >"$DROP_IN"
    systemctl daemon-reload
    systemctl reset-failed edgettsd.service
    systemctl restart edgettsd.service
}
# within CPUS: whether every thread of the service is allowed on these CPUs only, given as a list of single ones.
within() {
    local task cpu
    for task in /proc/"$(show MainPID)"/task/*; do
        for cpu in $(sed -n 's/^Cpus_allowed_list:.//p' "$task/status" | tr ',' ' '); do
            for cpu in $(seq "${cpu%-*}" "${cpu#*-}"); do [[ " $1 " == *" $cpu "* ]] || return 1; done
        done
    done
}
speaks() { edgettsctl speak -w "$@" "$TEXT"; }

modprobe snd-aloop
# What udev does elsewhere.
chgrp audio /dev/snd/* && chmod 660 /dev/snd/*
check "the kernel has a sound card" [ -e /dev/snd/pcmC0D0p ]
check "control groups are of version 2" [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]

# --- sound through the kernel's ALSA: what is captured is what was synthesised ----------------------------------
with "MemoryMax=800M" "AllowedCPUs=2-3"
check "the service is active" is ActiveState active
check "speech into a file" speaks -o /run/made.raw
figure "synthesised bytes $(stat -c %s /run/made.raw)"
/opt/capture.sh /run/heard.raw 30 &
capture=$!
sleep 1
check "speech on the sound card" speaks
wait "$capture"
check "the capture holds exactly what was synthesised" /opt/same.sh /run/made.raw /run/heard.raw
figure "$("${CALL[@]}" Stats | grep -o 'underruns\\": [0-9]*' | head -1 | tr -d '\\"')"

# --- limits of the control group --------------------------------------------------------------------------------
check "the memory limit is in force" [ "$(<$GROUP/memory.max)" = $((800 << 20)) ]
check "the CPU set is in force" [ "$(<$GROUP/cpuset.cpus.effective)" = 2-3 ]
check "every thread keeps to the CPU set" within "2 3"
figure "peak memory in MB $(($(<$GROUP/memory.peak) >> 20))"
PROFILE=$(systemd-run --quiet --wait --pipe -p MemoryMax=700M -p AllowedCPUs=1,3 edgettsctl hw --json)
check "the probe sees the memory limit" grep -q '"memory_limit_mb": 700' <<<"$PROFILE"
check "the probe sees the CPU set" grep -q '"allowed":\[1,3\]' <<<"$(tr -d ' \n' <<<"$PROFILE")"
"${CALL[@]}" Speak 'sa{sv}' "$TEXT" 0
systemctl set-property --runtime edgettsd.service AllowedCPUs=0-1
check "threads follow a CPU set that is changed while they speak" until_true 5 within "0 1"
check "and speech goes on" speaks
systemctl revert edgettsd.service

# --- a limit that is too small ends the service, not the machine ------------------------------------------------
with "MemoryMax=24M" "MemorySwapMax=0" "Restart=no"
check "too little memory ends the service" until_true 60 is Result oom-kill
with
check "and it starts again without the limit" until_true 60 is ActiveState active
check "and speaks" speaks
journalctl -b -o short-precise -u edgettsd.service
check "the script came to its end" true
