# Shared by all scripts of the boot tests; sourced after `set -euo pipefail`.
#
# Everything that is downloaded or built for the tests lives in $cache, outside the repository, and may be
# deleted at any time. Machines under test live in $cache/run and are removed by the script that created them.
lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${FIRSTLIGHT_CACHE:-/var/tmp/firstlight-cache}
export FIRSTLIGHT_CACHE=$cache
export PATH=$PATH:/usr/sbin:/sbin
umask 022

die() { echo "${0##*/}: $*" >&2; exit 1; }

need() {    # need PROGRAM=PACKAGE...: one line with all that is missing
  local pair missing=()
  for pair; do command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}"); done
  [ ${#missing[@]} -eq 0 ] || die "missing programs; install: ${missing[*]}"
}

need_root() {
  [ "$(id -u)" = 0 ] || die "this test boots real machines and needs root (sudo make test)"
  unshare --mount --net --uts true 2>/dev/null ||
    die "this test needs mount and network namespaces, which this host refuses to root (a container without CAP_SYS_ADMIN?)"
}

no_mirror() { die "$1 is not available from $("$lib/mirror"), see above; FIRSTLIGHT_MIRROR names another Debian mirror"; }

# Debian's name of the machines' architecture. Another one than the host's needs `emulate`, but for virtual machines that
# have their disk already.
debian_arch() { echo "${FIRSTLIGHT_ARCH:-$(dpkg --print-architecture)}"; }
# Options of mmdebstrap for it: its own check of the emulator reads the host's table.
foreign=(${FIRSTLIGHT_ARCH:+"--architectures=$FIRSTLIGHT_ARCH" --skip=check/qemu})

# one_at_a_time NAME: waits for other processes that have called it with NAME, for example because they write the same file of
# the cache. The lock ends with this process and those that inherit descriptor 8.
one_at_a_time() {
  mkdir -p "$cache"
  exec 8>"$cache/$1.lock"
  flock 8
}
