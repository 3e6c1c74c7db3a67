# Messages of shell tasks, as plain lines.
bbwarn() {
    echo "WARNING: $*"
}
bbfatal() {
    echo "ERROR: $*"
    exit 1
}
