package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// shellName is what POSIX lets a shell variable be called.
var shellName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// writeEnv writes the claim as lines for eval. Nothing in a value can leave its quotes, and what is not a name of a
// variable is left out.
func (a *app) writeEnv(claim sdk.Claim) error {
	env := map[string]string{}
	maps.Copy(env, claim.Environment)
	env["PREWARM_CLAIM_ID"] = claim.ClaimID.String()
	env["PREWARM_WORKSPACE"] = claim.Name
	addAddresses(env, claim.Addresses)
	var lines strings.Builder
	for _, name := range sortedKeys(env) {
		if !shellName.MatchString(name) || strings.ContainsRune(env[name], 0) {
			a.hint("Left out %q: a shell cannot hold it.", name)
			continue
		}
		_, _ = fmt.Fprintf(&lines, "export %s=%s\n", name, shellQuote(env[name]))
	}
	return a.write(lines.String())
}

// addAddresses names the first address PREWARM_ADDRESS, and each by its type: PREWARM_ADDRESS_TCP, then PREWARM_ADDRESS_TCP_2.
func addAddresses(env map[string]string, addresses []sdk.Address) {
	number := map[string]int{}
	for i, a := range addresses {
		if i == 0 {
			env["PREWARM_ADDRESS"] = a.Address
		}
		name := "PREWARM_ADDRESS_" + notInName.ReplaceAllString(strings.ToUpper(a.Type), "_")
		if number[name]++; number[name] > 1 {
			name += fmt.Sprintf("_%d", number[name])
		}
		env[name] = a.Address
	}
}

var notInName = regexp.MustCompile(`[^A-Z0-9]+`)

// shellQuote makes one word of any POSIX shell out of text: between single quotes only a single quote has a meaning.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./@:+-]+$`)

// shellWord is text as people write it: quoted where it has to be.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return shellQuote(text)
}

func sortedKeys(m map[string]string) []string {
	return slices.Sorted(maps.Keys(m))
}
