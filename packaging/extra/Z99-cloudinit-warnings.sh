# Shows at login what cloud-init wants an administrator to know about this instance.
# Sourced by login shells of any kind: no exit, nothing left behind in the shell.
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
        echo "To see these warnings no more, for everybody: touch $_ciw_dir/.skip"
        echo "or for yourself only: touch $HOME/.cloud-warnings.skip"
    } >&2
}
_cloudinit_warnings
unset -f _cloudinit_warnings
unset _ciw_dir _ciw_seen _ciw_file
