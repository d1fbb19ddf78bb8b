#!/bin/bash
# demo.sh - the whole boot job on a sample seed (tests/demo/seed), in a fresh directory that plays the
# machine: the generator, then the four stages in order, as systemd would run them. Three boots: the first
# one, the next one of the same instance, and one of another instance.
#
# Needs no root and leaves this machine as it is (see tests/lib/sandbox). BIN is the directory with the
# release binaries; DEMO_ROOT keeps the machine's directory there instead of removing it.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
BIN=$(readlink -f "${BIN:-$here/../build/bin}")
[ -x "$BIN/cloud-init-generator" ] || { echo "demo: no binaries in $BIN: run \"make release\"" >&2; exit 1; }

if [ -z "${SANDBOX:-}" ]; then
  work=${DEMO_ROOT:-$(mktemp -d "${TMPDIR:-/tmp}/firstlight-demo.XXXXXX")}
  mkdir -p "$work"
  work=$(readlink -f "$work")
  code=0
  BIN=$BIN DEMO_WORK=$work "$here/lib/sandbox" "$work/machine" "$here/demo.sh" || code=$?
  if [ -z "${DEMO_ROOT:-}" ]; then
    # Inside again: the machine's users own files that only the namespace's root may remove.
    "$here/lib/sandbox" "$work/none" true 2>/dev/null || :
    SANDBOX='' "$here/lib/sandbox" "$work/none" find "$work/machine" -xdev -delete 2>/dev/null || :
    rm -rf --one-file-system "$work" 2>/dev/null || echo "demo: $work is left" >&2
  fi
  exit $code
fi

root=$DEMO_WORK/machine
log=$root/var/log/cloud-init.log
bold='' plain=''
[ ! -t 1 ] || { bold=$'\e[1m' plain=$'\e[0m'; }
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
failed=0

# timed NAME CMD...: runs CMD; prints how long it took and, from the log, what it did.
timed() {
  local name=$1 begin end code=0 lines=0 did; shift
  [ ! -e "$log" ] || lines=$(wc -l <"$log")
  begin=$(date +%s%N)
  "$@" >>"$DEMO_WORK/output" 2>&1 </dev/null || code=$?
  end=$(date +%s%N)
  did=$(what_it_did "$name" "$lines")
  [ "$code" = 0 ] || { did="exit code $code; $did"; failed=1; }
  awk -v name="$name" -v ns=$((end - begin)) -v did="$did" \
    'BEGIN {printf "  %-10s %8.1f ms  ", name, ns / 1e6}
     BEGIN {n = split(did, words, " "); width = 24
       for (i = 1; i <= n; i++) {
         if (width + length(words[i]) > 104) {printf "\n%26s", ""; width = 24}
         printf "%s ", words[i]; width += length(words[i]) + 1}
       print ""}'
}

what_it_did() {
  if [ "$1" = generator ]; then
    echo "$(basename "$(ls "$root"/run/cloud-init/{enabled,disabled} 2>/dev/null)"):" \
      "$(tr -s '\n ' ' ' <"$root/run/cloud-init/cloud.cfg" 2>/dev/null)"
    return
  fi
  # "finish: STAGE/config-MODULE: SUCCESS: ...": modules that ran, and modules that their semaphore prevented from running.
  tail -n "+$(($2 + 1))" "$log" 2>/dev/null | awk '
    match($0, /finish: [^ ]*\/config-[^ :]*: [A-Z]*:/) {
      line = substr($0, RSTART, RLENGTH)
      module = line; sub(/.*\/config-/, "", module); sub(/:.*/, "", module)
      outcome = line; sub(/:$/, "", outcome); sub(/.*: /, "", outcome)
      if ($0 ~ /previously ran/) before[++b] = module
      else {ran[++r] = module (outcome == "SUCCESS" ? "" : "(" tolower(outcome) ")")}
    }
    /finish: [^ ]*\/(check-cache|search-|consume-)/ || /finish: [^ ]*\/(activate|apply)/ {
      step = $0; sub(/.*finish: [^ ]*\//, "", step); sub(/:.*/, "", step); steps[++s] = step
    }
    function all(list, n,  i, text) {for (i = 1; i <= n; i++) text = text (i > 1 ? ", " : "") list[i]; return text}
    END {
      if (s) printf "%s. ", all(steps, s)
      if (r) printf "Ran %s. ", all(ran, r)
      if (b) printf "Not again: %s.", all(before, b)
    }'
}

boot() {
  rm -rf "${root:?}"/run/* "${root:?}"/tmp/*
  mkdir -p "$root"/run/systemd/{generator,generator.early,generator.late,system}
  local early=$root/run/systemd/generator.early
  timed generator env PATH_ROOT="$root" SYSTEMD_VIRTUALIZATION=vm:kvm "$BIN/cloud-init-generator" \
    "$root/run/systemd/generator" "$early" "$root/run/systemd/generator.late"
  if [ ! -L "$early/multi-user.target.wants/cloud-init.target" ]; then
    echo "  the generator did not enable cloud-init"
    failed=1
  fi
  for stage in local network config final; do
    timed "$stage" "$BIN/cloud-init-$stage" --root "$root"
  done
}

diary() { sed 's/^/  /' "$root/var/log/demo" 2>/dev/null || echo "  (nothing)"; rm -f "$root/var/log/demo"; }

# The image: the defaults that packages install, and a seed directory.
"$here/lib/image" "$root" "$here/demo/seed"
# Files of the machine: not the host's, which are mounted in the sandbox.
files() {
  (cd "$root" && find "$@" -xdev \( -path etc/alternatives -o -path etc/pam.d \) -prune -o ! -type d -print) | sort
}
files etc var home root srv >"$DEMO_WORK/before"

title "First boot of instance i-demo-0001"
boot
title "What the seed's scripts wrote"
diary
title "What was written (mode, owner, size, path)"
files etc var home root srv run >"$DEMO_WORK/after"
# What is new, and what the image had and was changed.
(cd "$root" && { comm -13 "$DEMO_WORK/before" "$DEMO_WORK/after"
  find etc var -xdev -path etc/alternatives -prune -o -type f -newer "$DEMO_WORK/before" -print; } |
  sort -u | grep -vE '^(var/log/demo$|etc/pam.d/)' |
  while read -r path; do
    if [ -L "$path" ]; then
      printf '  %-10s %-11s %7s  /%s -> %s\n' link - - "$path" "$(readlink "$path")"
    else
      printf '  %-10s %-11s %7s  /%s\n' "$(stat -c %A "$path")" \
        "$(chroot "$root" stat -c %U:%G "/$path" 2>/dev/null || stat -c %u:%g "$path")" "$(stat -c %s "$path")" "$path"
    fi
  done)
title "cloud-init status --long"
code=0
"$BIN/cloud-init" --root "$root" status --long | sed 's/^/  /' || code=$?
[ "$code" = 0 ] || failed=1

title "Second boot, same instance: only what is for every boot"
boot
title "What the seed's scripts wrote"
diary

title "Third boot, another instance-id in the seed: a new instance"
sed -i 's/i-demo-0001/i-demo-0002/' "$root/var/lib/cloud/seed/nocloud/meta-data"
boot
title "What the seed's scripts wrote"
diary
printf '\n  instances: %s; current: %s\n' "$(ls "$root/var/lib/cloud/instances" 2>/dev/null | paste -sd' ')" \
  "$(readlink "$root/var/lib/cloud/instance" 2>/dev/null)"

if [ "$failed" = 1 ]; then
  title "Output of the programs"
  tail -40 "$DEMO_WORK/output"
  grep -E 'WARNING|ERROR' "$log" | tail -20 || :
fi
exit $failed
