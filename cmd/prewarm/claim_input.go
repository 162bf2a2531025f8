package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const maxSecret = 64 << 10 // bytes that are read; the server takes fewer

// claimedArg is TEMPLATE/PRESET, or TEMPLATE where parameters choose the preset or there is but one.
func claimedArg(arg string) (template, preset string, err error) {
	if arg != "" && !strings.Contains(arg, "/") {
		return arg, "", nil
	}
	return presetArg(arg)
}

// presetParameters reads NAME=VALUE.
func presetParameters(given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil //nolint:nilnil // None.
	}
	parameters := map[string]string{}
	for _, p := range given {
		name, value, ok := strings.Cut(p, "=")
		if _, twice := parameters[name]; !ok || name == "" || twice {
			return nil, usageErrorf("--preset-parameter %q: write NAME=VALUE, each NAME once", p)
		}
		parameters[name] = value
	}
	return parameters, nil
}

// claimSecrets reads where each secret is, never the secret itself: arguments are seen by everybody on the machine. So
// what is wrong with one is told by its number, in case somebody wrote it there after all.
func (a *app) claimSecrets(given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil //nolint:nilnil // None.
	}
	secrets, typed := map[string]string{}, false
	for i, s := range given {
		name, from, ok := strings.Cut(s, "=")
		if _, twice := secrets[name]; !ok || name == "" || twice {
			return nil, usageErrorf("--secret number %d: write NAME=-, NAME=@FILE or NAME=env:VARIABLE, each NAME once", i+1)
		}
		var content []byte
		var err error
		switch {
		case from == "-" && typed:
			return nil, usageErrorf("--secret number %d: only one secret can come from standard input", i+1)
		case from == "-":
			typed = true
			content, err = io.ReadAll(io.LimitReader(a.stdin, maxSecret+1))
		case strings.HasPrefix(from, "@"):
			content, err = os.ReadFile(strings.TrimPrefix(from, "@"))
		case strings.HasPrefix(from, "env:"):
			value := a.env(strings.TrimPrefix(from, "env:"))
			if value == "" {
				return nil, usageErrorf("--secret %s: the environment has no %s, or it is empty", name, strings.TrimPrefix(from, "env:"))
			}
			content = []byte(value)
		default:
			return nil, usageErrorf("--secret number %d: a secret is not written on the command line, where others see it: use "+
				"NAME=-, NAME=@FILE or NAME=env:VARIABLE", i+1)
		}
		switch {
		case err != nil:
			return nil, xerrors.Errorf("read secret %s: %w", name, err)
		case len(content) > maxSecret:
			return nil, usageErrorf("--secret %s has more than %d bytes", name, maxSecret)
		}
		secrets[name] = string(bytes.TrimSuffix(content, []byte("\n")))
	}
	return secrets, nil
}

// receiptText is a receipt in one line, empty for none.
func receiptText(r *sdk.Receipt) string {
	if r == nil {
		return ""
	}
	var stages []string
	for _, s := range []struct {
		name string
		ms   *float64
	}{
		{"queue", r.QueueMS},
		{"statement", r.StatementMS},
		{"in line", r.WaitMS},
		{"agent told", r.ToldMS},
		{"on_claim", r.HookMS},
	} {
		if s.ms != nil {
			stages = append(stages, fmt.Sprintf("%s %.1f ms", s.name, *s.ms))
		}
	}
	return strings.Join(stages, ", ")
}

// printClaimed lists workspaces that were claimed together.
func (a *app) printClaimed(claim sdk.Claim) error {
	t := a.newTable("WORKSPACE", "CLAIM", "PROVIDER ID", "ADDRESSES")
	for _, w := range claim.Workspaces {
		var addresses []string
		for _, address := range w.Addresses {
			addresses = append(addresses, address.Type+" "+address.Address)
		}
		t.add(cell{w.Name, bold}, w.ClaimID, w.ProviderID, strings.Join(addresses, ", "))
	}
	if err := a.print(claim, t.String()); err != nil {
		return err
	}
	if a.output == "table" {
		a.hint("Give each back:  prewarm workspace release NAME")
	}
	return nil
}
