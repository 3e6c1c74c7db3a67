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
state() { busctl get-property "$NAME" /org/edgettsd/Speech1 "$NAME" State; }
# The CPUs of every thread of the service with this name, each list once.
cpus_of() {
    local task
    for task in /proc/"$(show MainPID)"/task/*; do
        if [[ $(<"$task/comm") == "$1" ]]; then sed -n 's/^Cpus_allowed_list:.//p' "$task/status"; fi
    done | sort -u | paste -sd' '
}
sits_on() { [[ $(cpus_of "$1") == "$2" ]]; }
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
journal_has() { journalctl -q -b -o cat -u edgettsd.service | grep -q -- "$1"; }
# Whether as many utterances have ended as said.
edgettsctl_ended() { [[ $("${CALL[@]}" Stats) == *'\"ended_completed\": '"$1"[,}]* ]]; }
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
check "a call on the bus starts the daemon" "${CALL[@]}" ListVoices
check "the service counts as started once it can speak" until_true 90 is ActiveState active
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

# --- a model that takes longer to load than the bus waits for a service -----------------------------------------
# Also: a profile with two clusters of one CPU, and a thermal zone of the first one's clock.
cat >/run/systemd/system/edgettsd.service.d/script.conf <<'UNIT'
[Service]
Environment=EDGETTSD_HW_PROFILE=/run/profile.json
ExecStart=
ExecStart=/usr/bin/edgettsd --engine scripted:load_us=28000000
UNIT
CPUS=($(taskset -pc 1 | sed 's/.*: //; s/,/ /g' | tr ' ' '\n' | awk -F- '{for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i}'))
A=${CPUS[0]} B=${CPUS[-1]}
cat >/run/profile.json <<JSON
{"cpus": [{"id": $A, "core": $A, "cluster": $A}, {"id": $B, "core": $B, "cluster": $B, "capacity": 900}],
 "zones": [{"name": "thermal_zone0", "type": "made-up", "trip_c": 85}]}
JSON
printf '[engine]\nthreads_generator = 1\nthreads_decoder = 1\n' >/etc/edgettsd/edgettsd.toml.d/threads.toml
mount -t tmpfs none /sys/class/thermal
mkdir -p /sys/class/thermal/thermal_zone0/cdev0
echo "cpufreq-cpu$A" >/sys/class/thermal/thermal_zone0/cdev0/type
for file in type:made-up temp:40000 trip_point_0_type:passive trip_point_0_temp:85000; do
    echo "${file#*:}" >/sys/class/thermal/thermal_zone0/"${file%:*}"
done
systemctl daemon-reload
systemctl reset-failed edgettsd.service
before=$SECONDS
check "a slow start is answered at once" [ "$("${CALL[@]}" Speak 'sa{sv}' Hello. 0)" = "t 1" ]
check "it took no 20 s ($((SECONDS - before)) s)" [ $((SECONDS - before)) -lt 20 ]
check "the daemon says that it starts" [ "$(state)" = 's "starting"' ]
check "the service is not ready yet" is ActiveState activating
check "what was said meanwhile is spoken" until_true 60 edgettsctl_ended 1
check "and the service is ready" is ActiveState active
if [[ $A != "$B" ]]; then
    check "the generator has the fast CPU" sits_on tts-generator "$A"
    echo 84000 >/sys/class/thermal/thermal_zone0/temp
    check "the generator leaves a hot CPU" until_true 15 sits_on tts-generator "$B"
    check "the decoder makes room" until_true 5 sits_on tts-decoder "$A"
    check "the move is in the journal" until_true 5 journal_has "generator moved from CPUs $A to $B"
fi
systemctl stop edgettsd.service
rm /run/systemd/system/edgettsd.service.d/script.conf /etc/edgettsd/edgettsd.toml.d/threads.toml

# --- the template of a drop-in for boards -----------------------------------------------------------------------
sed "s/^#CPUAffinity=.*/CPUAffinity=$B/; s/^#MemoryMax=.*/MemoryMax=3G/" /usr/share/edgettsd/edgettsd-cpus.conf \
    >/run/systemd/system/edgettsd.service.d/board.conf
systemctl daemon-reload
check "the daemon starts with the board's drop-in" systemctl start edgettsd.service
check "systemd has taken the memory limit" is MemoryMax 3221225472
for thread in edgettsd tts-generator tts-decoder tts-playout; do
    check "$thread is on the CPU of the drop-in" sits_on "$thread" "$B"
done
systemctl stop edgettsd.service
rm /run/systemd/system/edgettsd.service.d/board.conf

# --- the scripted engine: a stall, the watchdog, a restart ------------------------------------------------------
cat >/run/systemd/system/edgettsd.service.d/stall.conf <<'UNIT'
[Service]
ExecStart=
ExecStart=/usr/bin/edgettsd --engine fake
WatchdogSec=6
UNIT
systemctl daemon-reload
systemctl reset-failed edgettsd.service
check "activation after a failure" "${CALL[@]}" ListVoices
before=$(show MainPID)
sleep 7
check "the watchdog is fed" is MainPID "$before"
check "the heat is in the journal" until_true 10 logged "$THROTTLED"
"${CALL[@]}" Speak 'sa{sv}' fake:stall 0
check "the watchdog kills a stalled daemon, and it is started again" until_true 60 is NRestarts 1
check "the new one answers" until_true 30 "${CALL[@]}" ListVoices
check "the stall is in the journal" until_true 5 logged "$STALLED"
systemctl stop edgettsd.service

# --- the real engine: a thread that ends, one that hangs in its kernel -------------------------------------------
script() {
    sed -i "s|^ExecStart=/.*|ExecStart=/usr/bin/edgettsd --engine scripted:$1|" \
        /run/systemd/system/edgettsd.service.d/stall.conf
    systemctl daemon-reload
    systemctl reset-failed edgettsd.service
}
# What the journal says from here on.
CURSOR=$(journalctl -b -n0 --show-cursor | sed -n 's/^-- cursor: //p')
says() { journalctl -q -b -o cat --after-cursor="$CURSOR" -u edgettsd.service | grep -q -- "$1"; }
script dies=1
check "it starts with a thread that will end" "${CALL[@]}" ListVoices
"${CALL[@]}" Speak 'sa{sv}' Hello. 0
check "the watchdog notices a dead thread, and it is started again" until_true 60 is NRestarts 1
check "the new one speaks after a dead thread" until_true 30 "${CALL[@]}" ListVoices
check "the journal names the dead thread" until_true 5 says "tts-generator has ended"
check "the journal says why it was ended" until_true 5 says "Watchdog timeout"
systemctl stop edgettsd.service
check "it stops cleanly after that" is Result success
CURSOR=$(journalctl -b -n0 --show-cursor | sed -n 's/^-- cursor: //p')
# Half a minute without progress, then the watchdog's time.
script step_us=60000000
check "it starts with a kernel that will hang" "${CALL[@]}" ListVoices
"${CALL[@]}" Speak 'sa{sv}' Hello. 0
check "the watchdog notices a hanging thread, and it is started again" until_true 90 is NRestarts 1
check "the journal names the hanging thread" until_true 5 says "generator has stood still for"
check "the new one answers after a hanging thread" until_true 30 "${CALL[@]}" ListVoices
systemctl stop edgettsd.service

# --- a user's session: a service manager and a bus of that user's own -------------------------------------------
useradd --create-home --groups audio speaker
ID=$(id -u speaker)
check "a session starts" systemctl start "user@$ID.service"
as_user() {
    setpriv --reuid=speaker --regid=speaker --init-groups env -i HOME=/home/speaker PATH="$PATH" LC_ALL=C \
        XDG_RUNTIME_DIR="/run/user/$ID" DBUS_SESSION_BUS_ADDRESS="unix:path=/run/user/$ID/bus" "$@"
}
user_shows() { as_user systemctl --user show -P "$1" edgettsd.service; }
user_is() { [[ $(user_shows "$1") == "$2" ]]; }
check "the session's bus is there" until_true 10 [ -S "/run/user/$ID/bus" ]
check "the session's daemon does not run before it is called" user_is ActiveState inactive
check "a call on the session bus starts it" as_user busctl --user call --timeout=60 "$NAME" /org/edgettsd/Speech1 "$NAME" ListVoices
check "it runs as the user's service" until_true 60 user_is ActiveState active
check "it runs as the user" [ "$(stat -c %U /proc/"$(user_shows MainPID)")" = speaker ]
as_user edgettsctl --session speak -w "Hello."; status=$?
check "it speaks (status $status)" [ "$status" = 0 -o "$status" = 5 -o "$status" = 6 ]
check "seccomp is in force there too" grep -q '^Seccomp:.2$' /proc/"$(user_shows MainPID)"/status
check "packed weights are in the user's cache" [ -n "$(ls -A /home/speaker/.cache/edgettsd)" ]
check "the system's daemon was not started" is ActiveState inactive
as_user systemctl --user stop edgettsd.service
check "it stops by itself" user_is Result success
journalctl -b -o short-precise -u edgettsd.service -u "user@$ID.service"
check "the script came to its end" true
