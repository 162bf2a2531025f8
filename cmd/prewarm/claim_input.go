package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
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

// namedValues reads a flag that is given once for each NAME, as one of these forms. Label is what an error calls the
// flag that is wrong; value makes a value of what stands behind NAME=.
func namedValues(
	given []string, forms string, label func(i int) string, value func(label, name, from string) (string, error),
) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil //nolint:nilnil // None.
	}
	values := map[string]string{}
	for i, flag := range given {
		name, from, ok := strings.Cut(flag, "=")
		if _, twice := values[name]; !ok || name == "" || twice {
			return nil, usageErrorf("%s: write %s, each NAME once", label(i), forms)
		}
		var err error
		if values[name], err = value(label(i), name, from); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// presetParameters reads NAME=VALUE.
func presetParameters(given []string) (map[string]string, error) {
	return namedValues(given, "NAME=VALUE",
		func(i int) string { return fmt.Sprintf("--preset-parameter %q", given[i]) },
		func(_, _, from string) (string, error) { return from, nil })
}

// claimParameters reads NAME=VALUE and NAME=@FILE. Messages name no value: it may be a secret.
func claimParameters(given []string) (map[string]string, error) {
	return namedValues(given, "NAME=VALUE or NAME=@FILE",
		func(i int) string { return fmt.Sprintf("--parameter number %d", i+1) },
		func(_, name, from string) (string, error) {
			path, isFile := strings.CutPrefix(from, "@")
			if !isFile {
				return from, nil
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return "", xerrors.Errorf("read parameter %s: %w", name, err)
			}
			return strings.TrimSuffix(string(content), "\n"), nil
		})
}

// claimSecrets reads where each secret is, never the secret itself: arguments are seen by everybody on the machine. So
// what is wrong with one is told by its number, in case somebody wrote it there after all.
func (a *app) claimSecrets(given []string) (map[string]string, error) {
	const forms = "NAME=-, NAME=@FILE or NAME=env:VARIABLE"
	typed := false
	label := func(i int) string { return fmt.Sprintf("--secret number %d", i+1) }
	return namedValues(given, forms, label, func(label, name, from string) (string, error) {
		var content []byte
		var err error
		variable, isVariable := strings.CutPrefix(from, "env:")
		path, isFile := strings.CutPrefix(from, "@")
		switch {
		case from == "-" && typed:
			return "", usageErrorf("%s: only one secret can come from standard input", label)
		case from == "-":
			typed = true
			content, err = io.ReadAll(io.LimitReader(a.stdin, maxSecret+1))
		case isFile:
			content, err = os.ReadFile(path)
		case isVariable:
			if content = []byte(a.env(variable)); len(content) == 0 {
				return "", usageErrorf("--secret %s: the environment has no %s, or it is empty", name, variable)
			}
		default:
			return "", usageErrorf("%s: a secret is not written on the command line, where others see it: use %s", label, forms)
		}
		switch {
		case err != nil:
			return "", xerrors.Errorf("read secret %s: %w", name, err)
		case len(content) > maxSecret:
			return "", usageErrorf("--secret %s has more than %d bytes", name, maxSecret)
		}
		return string(bytes.TrimSuffix(content, []byte("\n"))), nil
	})
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
		{"agent informed", r.ToldMS},
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
		addresses := lists.Of(w.Addresses, func(address sdk.Address) string { return address.Type + " " + address.Address })
		t.add(cell{w.Name, bold}, w.ClaimID, w.ProviderID, strings.Join(addresses, ", "))
	}
	if err := a.print(claim, t.String()); err != nil {
		return err
	}
	if a.output == "table" {
		for _, w := range claim.Workspaces {
			if text := openText(w.Open); text != "" {
				a.hint("%s: %s", w.Name, text)
			}
		}
		a.hint("Give each back:  prewarm workspace release NAME")
	}
	return nil
}
