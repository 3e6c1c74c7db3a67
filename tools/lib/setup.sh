# Shell functions: install what edgettsd needs to build and run here. Each does nothing when there is nothing to do.
# shellcheck shell=bash

VENV=$ROOT/.venv
EVAL=$ROOT/.venv-eval
QWEN_TTS=qwen-tts==0.1.1
STAMPS=$ROOT/build/stamps
NETWORK_HINT="check the network and pip's settings (pip config list), then run the same command again; it goes on from here."

# one_at_a_time: let a second tools/ command in this checkout wait for the first one's set-up.
one_at_a_time() {
    mkdir -p "$STAMPS"
    exec 9>"$STAMPS/lock"
    if ! flock -n 9; then
        say "==> Waiting for another set-up in this checkout ..."
        flock 9
    fi
}

# setup_done: let others go on.
setup_done() { exec 9>&-; }

_is_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# choose_python: set PYTHON to an interpreter >= 3.11. The system's comes first: its venv module and
# headers are one apt-get away, which is not so for what pyenv and the like put in front of it.
choose_python() {
    local candidate
    for candidate in "${PYTHON:-}" /usr/bin/python3 python3.13 python3.12 python3.11 python3; do
        candidate=$(command -v "${candidate:-none}") || continue
        if _is_python "$candidate"; then
            PYTHON=$candidate
            return
        fi
    done
    # On a bare Debian there is none yet; apt brings this one.
    PYTHON=/usr/bin/python3
}

_has_venv() { "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; }
_has_headers() { "$PYTHON" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null; }
_has_library() { pkg-config --exists "$1" 2>/dev/null; }
_has_soname() { "$PYTHON" -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$1" 2>/dev/null; }
_has_flac() { _has_soname libFLAC.so.12 || _has_soname libFLAC.so.14; }
_has_command() { command -v "$1" >/dev/null; }

# Debian package | how to tell that it is there | what it is for
_packages() {
    cat <<'TABLE'
python3-venv|_has_venv|the virtual environment
python3-dev|_has_headers|building the compiled modules
gcc|_has_command gcc|building the compiled modules
g++|_has_command g++|building llama.cpp
cmake|_has_command cmake|building llama.cpp
ninja-build|_has_command ninja|building llama.cpp
pkg-config|_has_command pkg-config|finding libraries
patchelf|_has_command patchelf|installing the compiled modules
libasound2-dev|_has_library alsa|playing through ALSA
libsoxr-dev|_has_library soxr|converting sample rates
dbus-daemon|_has_command dbus-daemon|the private message bus
TABLE
    if [[ ${1:-} == tests ]]; then
        cat <<'TABLE'
systemd|_has_command busctl|a foreign D-Bus client in the tests
systemd-container|_has_command systemd-nspawn|the service under a real systemd
mmdebstrap|_has_command mmdebstrap|the file system of that container
arch-test|_has_command arch-test|mmdebstrap's look at this machine
libmp3lame0|_has_soname libmp3lame.so.0|MP3 of the gateway
libopus0|_has_soname libopus.so.0|Opus of the gateway
libogg0|_has_soname libogg.so.0|Opus of the gateway
flac|_has_flac|FLAC of the gateway (its library has other names in other releases)
ffmpeg|_has_command ffmpeg|AAC of the gateway, and decoding in the tests
TABLE
    fi
}

# setup_apt run|tests: install the Debian packages that are missing, after listing them.
setup_apt() {
    local package probe purpose missing=() why=() sudo=()
    while IFS='|' read -r package probe purpose; do
        # Without pkg-config the libraries cannot be looked for, and are asked for as well.
        $probe || { missing+=("$package"); why+=("    $package: $purpose"); }
    done < <(_packages "$@")
    ((${#missing[@]})) || return 0
    say "==> Debian packages that are missing:"
    printf '%s\n' "${why[@]}" >&2
    if ! _has_command apt-get; then
        fail 1 "There is no apt-get here. Install what corresponds to the packages above and run this again."
    fi
    if ((EUID != 0)); then
        _has_command sudo || fail 1 "Run as root: apt-get install ${missing[*]}" "and then this command again."
        say "sudo is needed to install them."
        sudo -v || fail 1 "Run as root: apt-get install ${missing[*]}" "and then this command again."
        sudo=(sudo -n)
    fi
    step apt-update "Updating the package lists" "check the network and /etc/apt, then run the same command again." \
        "${sudo[@]}" apt-get -q update
    step apt-install "Installing ${#missing[@]} Debian packages" "see the log; 'apt-get -f install' repairs a broken package state." \
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "${missing[@]}"
    choose_python
    _is_python "$PYTHON" || fail 1 "Python 3.11 or newer is needed (Debian 12 has it); $PYTHON is older." "Set PYTHON=/path/to/python3.11 and run this again."
}

# setup_venv: .venv with the versions of tools/requirements.lock. The first time takes minutes: llama.cpp is compiled.
setup_venv() {
    local lock=$ROOT/tools/requirements.lock key
    key="$(sha256sum <"$lock") $VENV"
    stamped "$STAMPS/venv" "$key" && "$VENV/bin/python" -c '' 2>/dev/null && return
    rm -f "$STAMPS/venv" "$STAMPS/package"
    if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        step venv "Making .venv with $PYTHON" "delete .venv and run the same command again." \
            "$PYTHON" -m venv --clear "$VENV"
    fi
    # A wheel that pip has kept from an ordinary build has the same libraries, and is taken as it is.
    step pip "Installing Python packages (compiles llama.cpp: 2 to 4 minutes the first time)" "$NETWORK_HINT" \
        env CMAKE_ARGS="-DCMAKE_PROJECT_llama_cpp_INCLUDE=$(printf %q "$ROOT/tools/lib/llama.cmake") ${CMAKE_ARGS:-}" \
        "$VENV/bin/python" -m pip install -v --progress-bar off --no-input -r "$lock"
    printf '%s' "$key" >"$STAMPS/venv"
}

# setup_package: compile and install edgettsd into .venv; again only when its sources have changed.
setup_package() {
    local key
    key=$(cd "$ROOT" && cat "$STAMPS/venv" && fingerprint meson.build meson_options.txt pyproject.toml LICENSE README.md cython_kernels edgettsd systemd)
    stamped "$STAMPS/package" "$key" && return
    rm -f "$STAMPS/package"
    step package "Building and installing edgettsd" "see the log; delete build/native to build from scratch." \
        _install_package
    printf '%s' "$key" >"$STAMPS/package"
}

_install_package() {
    # The build folder is kept, so that only what has changed is compiled; meson cannot take up new options in it.
    local options
    options=$(cd "$ROOT" && fingerprint meson_options.txt)
    stamped "$STAMPS/options" "$options" || rm -rf "$ROOT/build/native"
    printf '%s' "$options" >"$STAMPS/options"
    # Tests need their doubles.
    cd "$ROOT" && PATH=$VENV/bin:$PATH "$VENV/bin/python" -m pip install -v --no-input --no-deps --no-build-isolation \
        --force-reinstall "--config-settings=build-dir=$ROOT/build/native" \
        "--config-settings=setup-args=-Dtesting=true" .
}

# setup_eval: .venv-eval with the official model's code, for tools/oracle and the tests that compare with it. The
# stamp in it comes last: without one of these pins the environment is not whole and is made again.
setup_eval() {
    local wanted
    one_at_a_time
    choose_python
    # The product itself is not needed there.
    wanted=$("$PYTHON" - "$ROOT/pyproject.toml" <<'PY'
import sys, tomllib
print("\n".join(tomllib.load(open(sys.argv[1], "rb"))["project"]["optional-dependencies"]["eval"]))
PY
    ) || fail 1 "cannot read the extra [eval] of pyproject.toml with $PYTHON"
    if ! stamped "$EVAL/.complete" "$wanted $QWEN_TTS" || ! "$EVAL/bin/python" -c '' 2>/dev/null; then
        rm -rf "$EVAL"
        step eval-venv "Making .venv-eval with $PYTHON" "install the package python3-venv." "$PYTHON" -m venv "$EVAL"
        printf '%s\n' "$wanted" >"$EVAL/requirements.txt"
        step eval-pip "Installing torch, transformers and the like (some minutes)" "$NETWORK_HINT" \
            "$EVAL/bin/python" -m pip install --progress-bar off --no-input -r "$EVAL/requirements.txt"
        # Without its dependencies: they pull in a web interface and audio tools that the model does not use.
        step eval-model "Installing $QWEN_TTS" "$NETWORK_HINT" \
            "$EVAL/bin/python" -m pip install --progress-bar off --no-input --no-deps "$QWEN_TTS"
        printf '%s' "$wanted $QWEN_TTS" >"$EVAL/.complete"
    fi
    setup_done
}

# setup_all run|tests: everything up to an installed edgettsd.
setup_all() {
    one_at_a_time
    choose_python
    setup_apt "$@"
    setup_venv
    setup_package
}
