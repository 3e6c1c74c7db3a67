# Shell functions: run a Python tool of this repository, wherever it is called. $here is the folder tools/.
# shellcheck shell=sh disable=SC2154

# Nothing in the caller's folder takes the place of what is installed: it may be the repository's root, whose
# cython_kernels has no compiled modules.
export PYTHONSAFEPATH=1
root=$(CDPATH='' cd -- "$here/.." && pwd) || exit 1

# run_from_source MODULE ARGUMENTS...: what needs no compiled module, with this tree's own edgettsd.
run_from_source() {
    python=${python:-$root/.venv/bin/python}
    reason=
    if [ ! -x "$python" ]; then
        reason="$python is missing"
    # A set-up that was interrupted, or is still at work, leaves an interpreter without packages.
    elif ! reason=$("$python" -c 'import numpy' 2>&1); then
        reason="$python lacks packages: $(printf '%s\n' "$reason" | tail -n 1)"
    fi
    if [ -n "$reason" ]; then
        echo "error: $reason" >&2
        echo "hint: ${python_hint:-run tools/try once, it creates the environment}" >&2
        exit 1
    fi
    PYTHONPATH=$here:$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m "$@"
}

# run_installed MODULE ARGUMENTS...: with the edgettsd that is installed in .venv.
run_installed() {
    python=$root/.venv/bin/python
    export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
    if ! reason=$("$python" -c 'import cython_kernels.pipe' 2>&1); then
        echo "error: edgettsd is not installed in $root/.venv: $(printf '%s\n' "$reason" | tail -n 1)" >&2
        echo "hint: run tools/try once, it creates the environment and installs it" >&2
        exit 1
    fi
    exec "$python" -m "$@"
}
