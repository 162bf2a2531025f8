#!/usr/bin/env bash
# Takes one safeguard out of the code at a time and runs the simulation until an invariant notices.
#
#   scripts/sim-mutants.sh                 all mutants
#   scripts/sim-mutants.sh fence-removed   some
#
# A mutant is a patch in scripts/mutants/simulation, with a header that says what it takes out and which invariant should
# notice, or which of several. It is applied in a copy of the tree. Only a violation of one of those counts, as the
# simulation reports it: a build that fails, a panic, a process that ends early or another violation does not. SEEDS and
# STEPS are how many of what to try, JOBS how many mutants at a time. Exits 1 if a mutant survives.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD
scratch=$(mktemp -d "${TMPDIR:-/tmp}/prewarm-sim-mutants-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

field() { sed -n "s/^$2: //p" "$1"; }

mutant() {
  local patch=$1 name copy output line
  name=$(basename "$patch" .patch)
  copy=$scratch/$name output=$scratch/$name.log
  mkdir "$copy"
  (cd "$source" && git ls-files -z --cached --others --exclude-standard |
    tar --null --ignore-failed-read -cf - -T - 2>/dev/null | tar -xf - -C "$copy")
  cd "$copy"
  local outcome=SURVIVED where='' what=''
  if ! patch --quiet -p1 <"$patch"; then
    outcome='NO PATCH'
  # Without the path of the copy in it, what the mutant leaves alone comes from the build cache.
  elif ! go test -trimpath -c -o sim.test ./coderd/simulation >"$output" 2>&1; then
    outcome='NO BUILD'
  else
    cd coderd/simulation
    PREWARM_SIM_STOP=1 PREWARM_SIM_SEEDS=${SEEDS:-200} PREWARM_SIM_STEPS=${STEPS:-500} \
      ../../sim.test -test.run '^TestSeeds$' -test.timeout 0 >"$output" 2>&1 || true
    line=$(grep -m 1 -oE 'seed [0-9]+, step [0-9]+: .*' "$output" || true)
    if [[ -n $line ]]; then
      where=${line%%:*} what=${line#*: }
      case " or $(field "$patch" Invariant) or " in
      *" or ${what%%:*} or "*) outcome=caught ;;
      *) outcome='BY ANOTHER' ;; # what it takes out was not seen to matter
      esac
    elif ! grep -q '^PASS' "$output"; then
      outcome='FAILED OTHERWISE'
    fi
  fi
  printf '%-28s | %-10s | %-18s | %-22s | %s\n' "$name" "$outcome" "$(field "$patch" Invariant)" "$where" "$what"
  if [[ $outcome != caught ]]; then
    tail -n 30 "$output" >&2 || true
    touch "$scratch/survived"
  fi
  rm -rf "$copy"
}

if (($# > 0)); then
  patches=("${@/#/$source/scripts/mutants/simulation/}")
  patches=("${patches[@]/%/.patch}")
else
  patches=("$source"/scripts/mutants/simulation/*.patch)
fi
printf '%-28s | %-10s | %-18s | %-22s | %s\n' mutant outcome 'to be caught by' 'caught at' 'caught by'
for patch in "${patches[@]}"; do
  while (($(jobs -rp | wc -l) >= ${JOBS:-1})); do wait -n || true; done
  mutant "$patch" &
done
wait
[[ ! -e $scratch/survived ]]
