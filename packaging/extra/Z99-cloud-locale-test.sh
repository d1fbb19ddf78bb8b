# Reports at the first login that the session's locale is not installed, and how to install it.
# Sourced by any login shell: it must not exit, and leaves no variables or functions behind.
_cloudinit_locale() {
    [ -t 0 ] && [ -t 2 ] || return 0
    [ ! -e "$HOME/.cloud-locale-test.skip" ] || return 0
    [ ! -e /var/lib/cloud/instance/locale-check.skip ] || return 0
    command -v locale >/dev/null 2>&1 || return 0
    # locale(1) prints errors only for a locale that cannot be set.
    [ -n "$(locale 2>&1 >/dev/null)" ] || return 0
    _cil_name=${LC_ALL:-${LC_CTYPE:-${LANG:-}}}
    {
        echo "The locale of this session, \"$_cil_name\", is not installed on this machine."
        if [ -e /usr/share/language-support ] || [ -e /etc/lsb-release ] && grep -qs Ubuntu /etc/lsb-release; then
            echo "To install it: sudo apt-get install language-pack-${_cil_name%%_*}"
        elif command -v locale-gen >/dev/null 2>&1; then
            echo "To generate it: sudo dpkg-reconfigure locales"
        elif command -v dnf >/dev/null 2>&1; then
            echo "To install it: sudo dnf install glibc-langpack-${_cil_name%%_*}"
        fi
        echo "To disable this message: touch ~/.cloud-locale-test.skip"
    } >&2
    : >"$HOME/.cloud-locale-test.skip" 2>/dev/null
}
_cloudinit_locale
unset -f _cloudinit_locale
unset _cil_name
