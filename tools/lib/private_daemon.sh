# Shell functions: an edgettsd of one's own on a private message bus.
# shellcheck shell=bash

# sound_card_configured: whether this machine could have a default PCM, before anything is installed.
sound_card_configured() {
    local file
    [[ -n ${ALSA_CONFIG_PATH:-} ]] && return
    for file in "$HOME/.asoundrc" "${XDG_CONFIG_HOME:-$HOME/.config}/alsa/asoundrc" /etc/asound.conf /etc/alsa/conf.d/*default*; do
        [[ -e $file ]] && return
    done
    [[ -r /proc/asound/cards ]] && ! grep -q 'no soundcards' /proc/asound/cards
}

# sound_device_opens: whether libasound opens the PCM "default" now.
sound_device_opens() {
    mkdir -p "$LOGS"
    "$VENV/bin/python" - 2>"$LOGS/sound.log" <<'PY'
import ctypes, sys
alsa = ctypes.CDLL("libasound.so.2")
pcm = ctypes.c_void_p()
error = alsa.snd_pcm_open(ctypes.byref(pcm), b"default", 0, 1)
if error < 0:
    alsa.snd_strerror.restype = ctypes.c_char_p
    print(alsa.snd_strerror(error).decode(), file=sys.stderr)
    sys.exit(1)
alsa.snd_pcm_close(pcm)
PY
}

no_sound() {
    local reason
    reason=${VENV_READY:+$(last_line "$LOGS/sound.log" 200)}
    fail 3 "tools/try: there is no sound device to play on: ALSA cannot open the PCM \"default\"${reason:+ ($reason)}." \
        "    With a sound card: is its driver loaded (cat /proc/asound/cards), are you in group audio, is another program using it?" \
        "    Without one: tools/try TEXT --out FILE.wav writes what would be played."
}

# start_daemon BUNDLE [capture]: a message bus and edgettsd, without BUNDLE with the model that speaks where none is
# configured; with "capture" the ALSA sink plays into $WORK/played.wav. Both end with the script.
start_daemon() {
    local bundle=$1 i pid folder=${TMPDIR:-/tmp}
    # The bus's address: a socket's path is short, and most signs have to be escaped in it.
    [[ $folder =~ ^[-_/.A-Za-z0-9]{1,70}$ ]] || folder=/tmp
    WORK=$(mktemp -d "$folder/edgettsd-try.XXXXXX") || fail 1 "tools/try: cannot make a temporary folder"
    at_exit rm -rf "$WORK"
    cat >"$WORK/bus.conf" <<CONF
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=$WORK/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow own="*"/>
  </policy>
</busconfig>
CONF
    dbus-daemon --config-file="$WORK/bus.conf" --nofork --nopidfile >"$WORK/bus.log" 2>&1 </dev/null &
    pid=$!
    at_exit stop_process "$pid"
    for ((i = 0; i < 100; i++)); do
        [[ -S $WORK/bus ]] && break
        kill -0 "$pid" 2>/dev/null || fail 1 "The message bus did not start: $(last_line "$WORK/bus.log" 200)"
        sleep 0.05
    done
    export DBUS_SESSION_BUS_ADDRESS=unix:path=$WORK/bus
    if [[ ${2:-} == capture ]]; then
        # Everything that the sink plays goes to a file; nothing of the machine's own ALSA settings is read.
        cat >"$WORK/alsa.conf" <<CONF
pcm.!default {
    type file
    slave.pcm { type null }
    file "$WORK/played.wav"
    format "wav"
}
CONF
        export ALSA_CONFIG_PATH=$WORK/alsa.conf
    fi
    cat >"$WORK/edgettsd.toml" <<CONF
[bus]
bus = "session"
CONF
    [[ -z $bundle ]] || printf '[model]\npath = "%s"\n' "$bundle" >>"$WORK/edgettsd.toml"
    say "==> Starting edgettsd"
    # Packed weights are kept here between runs, not in the user's own cache.
    mkdir -p "$ROOT/build/cache"
    CACHE_DIRECTORY=$ROOT/build/cache "$VENV/bin/edgettsd" --config "$WORK/edgettsd.toml" >"$WORK/edgettsd.log" 2>&1 </dev/null &
    DAEMON=$!
    at_exit stop_process "$DAEMON"
    for ((i = 0; i < 300; i++)); do
        dbus-send --bus="$DBUS_SESSION_BUS_ADDRESS" --print-reply=literal --dest=org.freedesktop.DBus / \
            org.freedesktop.DBus.NameHasOwner string:org.edgettsd.Speech1 2>/dev/null | grep -q true && return
        kill -0 "$DAEMON" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 15 "$WORK/edgettsd.log" | sed 's/^/    | /' >&2
    fail 1 "edgettsd did not start; above is the end of its log."
}

# speak TEXT: through edgettsctl, to the end. Its standard input takes any text, also one that begins with "-".
speak() { printf '%s' "$1" | "$VENV/bin/edgettsctl" --session speak --wait -; }

# stop_daemon: end edgettsd, so that its sink closes the device.
stop_daemon() { stop_process "$DAEMON"; }
