#!/usr/bin/env bash
# Takes one safeguard out of the code at a time and shows that a test notices.
#
#   scripts/mutants.sh            all mutants
#   scripts/mutants.sh no-fence   some
#
# A mutant is a patch in scripts/mutants, with a header that says what it breaks and which test must fail with which
# words. The tree is copied first, so nothing here changes. Each test must pass on the copy as it is; on the mutant it
# must fail with those words, which neither a build that fails nor a panic says. Exits 1 if a mutant survives.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD

copy=$(mktemp -d "${TMPDIR:-/tmp}/prewarm-mutants-XXXXXX")
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do [[ -e $file ]] && printf '%s\0' "$file"; done |
  xargs -0 cp --parents -t "$copy"
cd "$copy"

field() { sed -n "s/^$2: //p" "$1" | head -n 1; }
output=$copy.log
trap 'rm -rf "$copy" "$output"' EXIT

if (($# > 0)); then
  patches=("${@/#/$source/scripts/mutants/}")
  patches=("${patches[@]/%/.patch}")
else
  patches=("$source"/scripts/mutants/*.patch)
fi

declare -A sound=()
survived=0
printf '%-22s | %-10s | %-44s | %s\n' mutant outcome 'caught by' invariant
for patch in "${patches[@]}"; do
  package=$(field "$patch" Package) run=$(field "$patch" Run)
  if [[ -z ${sound[$package $run]:-} ]]; then
    if ! go test -count=1 "$package" -run "$run" >"$output" 2>&1; then
      cat "$output"
      echo "$package $run fails without any mutant" >&2
      exit 1
    fi
    sound[$package $run]=yes
  fi
  patch --quiet -p1 <"$patch"
  outcome=SURVIVED
  if go build -o /dev/null ./cmd/prewarm >"$output" 2>&1 && go vet "$package" >>"$output" 2>&1; then
    if ! go test -count=1 "$package" -run "$run" >"$output" 2>&1; then
      if grep -Eq "$(field "$patch" Expect)" "$output" && ! grep -q '^panic:' "$output"; then
        outcome=caught
      fi
    fi
  else
    outcome='NO BUILD'
  fi
  patch --quiet -R -p1 <"$patch"
  printf '%-22s | %-10s | %-44s | %s\n' \
    "$(basename "$patch" .patch)" "$outcome" "$package $run" "$(field "$patch" Invariant)"
  if [[ $outcome != caught ]]; then
    survived=1
    tail -n 40 "$output" >&2
  fi
done
exit $survived
