#!/bin/bash
# Runs as root inside the container of tests/integration/test_systemd_container.py, under its systemd: one line
# a check in /result/checks, "ok" or "FAILED" first. What is run, and what it prints, goes to /result/log.
exec >/result/log 2>&1
set -x
export LC_ALL=C
# STARTED and its siblings: the ids of edgettsd/messages.py.
# shellcheck source=/dev/null
. /result/ids
NAME=org.edgettsd.Speech1
CALL=(busctl call --timeout=100 "$NAME" /org/edgettsd/Speech1 "$NAME")

check() {
    local name=$1
    shift
    if "$@"; then name="ok $name"; else name="FAILED $name"; fi
    echo "$name" >>/result/checks
}
show() { systemctl show -P "$1" edgettsd.service; }
is() { [[ $(show "$1") == "$2" ]]; }
# until SECONDS COMMAND...
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.2
    done
}
# Whether the playout thread has its real-time priority.
playout() {
    local task
    for task in /proc/"$(show MainPID)"/task/*; do
        if [[ $(<"$task/comm") == tts-playout ]]; then
            # Fields 40 and 41: rt_priority and policy (2 is SCHED_RR).
            [[ $(cut -d' ' -f40,41 "$task/stat") == "20 2" ]]
            return
        fi
    done
    return 1
}
logged() { [[ -n $(journalctl -q -b -o cat -u edgettsd.service "MESSAGE_ID=$1") ]]; }
explained() { journalctl -q -b -x -u edgettsd.service "MESSAGE_ID=$1" | grep -q -- "-- Subject: $2"; }
abort_speech() {
    local id
    "${CALL[@]}" Speak 'sa{sv}' "$LONG" 0 || return 1
    id=$(busctl get-property "$NAME" /org/edgettsd/Speech1 "$NAME" Active)
    [[ $id == "t "[1-9]* ]] || return 1
    [[ $("${CALL[@]}" AbortAll) == "u 1" ]]
}
LONG=$(printf 'This sentence is one of many. %.0s' {1..40})

journalctl --update-catalog
mkdir -p /etc/edgettsd/edgettsd.toml.d /run/systemd/system/edgettsd.service.d
# Where this machine's own limits keep even systemd from raising LimitRTPRIO=, the right comes as a capability.
if ! prlimit --rtprio=50:50 true; then
    cat >/run/systemd/system/edgettsd.service.d/realtime.conf <<'UNIT'
[Service]
CapabilityBoundingSet=CAP_SYS_NICE
AmbientCapabilities=CAP_SYS_NICE
UNIT
    systemctl daemon-reload
fi

# --- the real engine, started by a call on the bus --------------------------------------------------------------
check "the daemon does not run before it is called" is ActiveState inactive
# The bus itself waits 25 s for a service; on a machine with other work a start may take longer.
check "a call on the bus starts the daemon" until_true 90 "${CALL[@]}" ListVoices
check "it runs as a service" is ActiveState active
check "it runs as its own user" [ "$(stat -c %U /proc/"$(show MainPID)")" = edgettsd ]
check "real-time playout" playout
edgettsctl speak -w "Hello." ; status=$?
# A random model ends by limit or runaway as well.
check "speech is played to its end (status $status)" [ "$status" = 0 -o "$status" = 5 -o "$status" = 6 ]
edgettsctl speak -o /result/speech.wav "Hello."; status=$?
check "speech into a file (status $status)" [ "$status" = 0 -o "$status" = 5 -o "$status" = 6 ]
check "the file holds samples" [ "$(stat -c %s /result/speech.wav)" -gt 3000 ]
check "abort" abort_speech
check "speech after an abort" until_true 20 "${CALL[@]}" Speak 'sa{sv}' Hello. 0
check "no memory is both writable and executable" [ "$(grep -c ' rwxp ' /proc/"$(show MainPID)"/maps)" = 0 ]
check "seccomp is in force" grep -q '^Seccomp:.2$' /proc/"$(show MainPID)"/status
check "packed weights are cached" [ -n "$(ls -A /var/cache/edgettsd)" ]
check "nobody may not speak" [ "$(setpriv --reuid=nobody --regid=nogroup --clear-groups "${CALL[@]}" AbortAll 2>&1 | grep -c -i 'denied')" = 1 ]
check "group audio may speak" setpriv --reuid=nobody --regid=audio --clear-groups "${CALL[@]}" AbortAll
check "the start is in the journal" until_true 5 logged "$STARTED"
check "the catalog explains the start" explained "$STARTED" "Text-to-speech is ready"
systemctl stop edgettsd.service
check "it stops by itself" is Result success
check "it is down" is ActiveState inactive

# --- a model that is not there: no restart loop -----------------------------------------------------------------
printf '[model]\npath = "/nowhere"\n' >/etc/edgettsd/edgettsd.toml.d/model.toml
systemctl start edgettsd.service
check "a refused model is a failure" until_true 20 is ActiveState failed
check "a refused model is not tried again" is NRestarts 0
check "the refusal is in the journal" until_true 5 logged "$MODEL_REFUSED"
rm /etc/edgettsd/edgettsd.toml.d/model.toml

# A made-up thermal zone, one degree below its limit.
mount -t tmpfs none /sys/class/thermal
mkdir /sys/class/thermal/thermal_zone0
for file in type:made-up temp:84000 trip_point_0_type:passive trip_point_0_temp:85000; do
    echo "${file#*:}" >/sys/class/thermal/thermal_zone0/"${file%:*}"
done

# --- the scripted engine: a stall, the watchdog, a restart ------------------------------------------------------
cat >/run/systemd/system/edgettsd.service.d/stall.conf <<'UNIT'
[Service]
ExecStart=
ExecStart=/usr/bin/edgettsd --engine fake
WatchdogSec=6
CPUAffinity=0
UNIT
systemctl daemon-reload
systemctl reset-failed edgettsd.service
check "activation after a failure" "${CALL[@]}" ListVoices
check "a drop-in sets the CPUs" grep -q '^Cpus_allowed_list:.0$' /proc/"$(show MainPID)"/status
before=$(show MainPID)
sleep 7
check "the watchdog is fed" is MainPID "$before"
check "the heat is in the journal" until_true 10 logged "$THROTTLED"
"${CALL[@]}" Speak 'sa{sv}' fake:stall 0
check "the watchdog kills a stalled daemon, and it is started again" until_true 60 is NRestarts 1
check "the new one answers" until_true 30 "${CALL[@]}" ListVoices
check "the stall is in the journal" until_true 5 logged "$STALLED"
journalctl -b -o short-precise -u edgettsd.service
