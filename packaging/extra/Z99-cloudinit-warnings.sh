# Prints cloud-init's warnings about this instance at login.
# Sourced by any login shell: it must not exit, and leaves no variables or functions behind.
_cloudinit_warnings() {
    [ -t 0 ] && [ -t 2 ] || return 0
    _ciw_dir=/var/lib/cloud/instance/warnings
    [ -d "$_ciw_dir" ] || return 0
    [ ! -e "$_ciw_dir/.skip" ] && [ ! -e "$HOME/.cloud-warnings.skip" ] || return 0
    _ciw_seen=
    for _ciw_file in "$_ciw_dir"/*; do
        [ -f "$_ciw_file" ] && [ -r "$_ciw_file" ] || continue
        cat "$_ciw_file" >&2
        _ciw_seen=yes
    done
    [ -z "$_ciw_seen" ] || {
        echo "To disable these warnings for all users: touch $_ciw_dir/.skip"
        echo "or only for yourself: touch $HOME/.cloud-warnings.skip"
    } >&2
}
_cloudinit_warnings
unset -f _cloudinit_warnings
unset _ciw_dir _ciw_seen _ciw_file
