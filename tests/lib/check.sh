# Sourced by tests that state one fact a line: `check WHAT COMMAND...` runs the command, says PASS or FAIL (with the end
# of what it printed), and counts in $passed and $failed. `not COMMAND...` is its opposite.
failed=0 passed=0

check() {
  local what=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "PASS $what"
    passed=$((passed + 1))
  else
    echo "FAIL $what"
    printf '%s\n' "$output" | tail -n 15 | sed 's/^/     /'
    failed=$((failed + 1))
  fi
}

not() { ! "$@"; }
