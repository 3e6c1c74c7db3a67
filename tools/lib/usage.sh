# Shell function: a script whose usage is the comment at its beginning.
# shellcheck shell=bash

# comment_is_usage ARGUMENTS...: when -h or --help comes first, print the script's first comment and exit.
comment_is_usage() {
    [[ ${1:-} == -h || ${1:-} == --help ]] || return 0
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 0
}
