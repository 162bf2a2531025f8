package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// finding is what came of one look of the doctor.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warning, error, or skipped where the user may not look
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do
}

const (
	isOK      = "ok"
	isWarning = "warning"
	isError   = "error"
	isSkipped = "skipped"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := newCommand("doctor", "Check the server and say what to fix",
		`Checks the server, its database, the clocks, the versions, the passes, the providers, the forges and the pools,
and says what to fix. It changes nothing. What your role cannot view is skipped. The status is 1 if a check is an error.`,
		"  prewarm doctor\n  prewarm doctor -o json",
		a.asks(func(ctx context.Context, c *sdk.Client, _ string) error {
			findings := a.examine(ctx, c)
			t := a.newTable("CHECK", "STATUS", "DETAIL", "FIX")
			wrong := 0
			for _, f := range findings {
				if f.Status == isError {
					wrong++
				}
				t.add(f.Check, cell{f.Status, map[string]style{isOK: green, isWarning: yellow, isError: red}[f.Status]}, f.Detail, f.Fix)
			}
			if err := a.print(findings, t.String()); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if wrong > 0 {
				message := fmt.Sprintf("%d of %d checks failed", wrong, len(findings))
				return &exitError{status: statusError, message: message}
			}
			return nil
		}))
	cmd.SuggestFor = []string{"check", "diagnose", "health"}
	return cmd
}

// examine looks at one thing after the other. A server that is not reached ends it: nothing else can be said.
func (a *app) examine(ctx context.Context, c *sdk.Client) []finding {
	health, err := c.Health(ctx)
	if err != nil {
		return []finding{{"server", isError, a.explain(err), "start the server, or name another with --url"}}
	}
	findings := []finding{{Check: "server", Status: isOK, Detail: c.URL.String() + ", " + health.Version}}
	identity, err := c.Whoami(ctx)
	findings = append(findings, readiness(health), a.database(err), a.clocks(health), versions(health))
	if err != nil {
		return append(findings, a.failed("token", err))
	}
	findings = append(findings, finding{Check: "token", Status: isOK, Detail: fmt.Sprintf("%s (%s)", identity.User, identity.Role)})
	for _, look := range []struct {
		name  string
		check func(context.Context, *sdk.Client) ([]finding, error)
	}{
		{"replicas", replicasFindings},
		{"passes", passFindings},
		{"providers", providerFindings},
		{"forges", forgeFindings},
		{"pools", poolFindings},
	} {
		found, err := look.check(ctx, c)
		if err != nil {
			found = []finding{a.failed(look.name, err)}
		}
		findings = append(findings, found...)
	}
	return findings
}

// failed is a look that could not be had.
func (a *app) failed(check string, err error) finding {
	if sdk.StatusOf(err) == http.StatusForbidden {
		return finding{check, isSkipped, err.Error(), "ask an owner to run this"}
	}
	return finding{check, isError, a.explain(err), "see the server's log"}
}

// readiness is what the server says of itself.
func readiness(h sdk.Health) finding {
	if h.Ready {
		return finding{Check: "ready", Status: isOK, Detail: "it takes requests"}
	}
	return finding{"ready", isError, strings.Join(h.Reasons, "; "), "fix what it names, or use another replica"}
}

// database is by an answer that needs the database: who it refuses with 4xx, it has looked up there.
func (a *app) database(err error) finding {
	if status := sdk.StatusOf(err); err == nil || status >= 400 && status < 500 {
		return finding{Check: "database", Status: isOK, Detail: "answers"}
	}
	return finding{"database", isError, a.explain(err), "start PostgreSQL, and look at --postgres-url of the server"}
}

// clocks compares the server's with this one. Leases and expiry times are shown by both.
func (a *app) clocks(h sdk.Health) finding {
	const most = 5 * time.Second
	if h.At.IsZero() {
		return finding{Check: "clock", Status: isSkipped, Detail: "the server does not say its time"}
	}
	apart := a.clock.Since(h.At).Round(time.Second)
	if apart > most || apart < -most {
		return finding{"clock", isWarning, fmt.Sprintf("this machine and the server are %s apart", apart.Abs()), "synchronize both clocks (NTP)"}
	}
	return finding{Check: "clock", Status: isOK, Detail: "as here, within " + most.String()}
}

func versions(h sdk.Health) finding {
	if mine := version(); mine != h.Version {
		return finding{"version", isWarning, fmt.Sprintf("the server is %s, this command is %s", h.Version, mine), "install the server's release here"}
	}
	return finding{Check: "version", Status: isOK, Detail: h.Version}
}

func replicasFindings(ctx context.Context, c *sdk.Client) ([]finding, error) {
	replicas, err := c.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	var found []finding
	alive, releases := 0, map[string]bool{}
	for _, r := range replicas {
		if r.State == "stale" {
			found = append(found, finding{"replica " + r.Name, isWarning, "not heard of", "start it again; the others do its work"})
			continue
		}
		alive++
		releases[r.Version] = true
	}
	if len(releases) > 1 {
		found = append(found, finding{"replicas", isWarning, "they run " + strings.Join(slices.Sorted(maps.Keys(releases)), " and "), "finish the upgrade"})
	}
	if alive == 0 {
		return append(found, finding{"replicas", isError, "none is alive", "start a server"}), nil
	}
	return append(found, finding{Check: "replicas", Status: isOK, Detail: fmt.Sprintf("%d alive", alive)}), nil
}

func passFindings(ctx context.Context, c *sdk.Client) ([]finding, error) {
	pass, err := c.LastPass(ctx)
	switch {
	case err != nil:
		return nil, err
	case pass.Stale:
		return []finding{{"passes", isError, "pools are not refilled: no full pass succeeded of late", "see the server's log for the pass that fails"}}, nil
	}
	return []finding{{Check: "passes", Status: isOK, Detail: "the last full one " + age(time.Duration(pass.StalenessMS)*time.Millisecond) + " ago"}}, nil
}

func providerFindings(ctx context.Context, c *sdk.Client) ([]finding, error) {
	providers, err := c.Providers(ctx)
	if err != nil {
		return nil, err
	}
	var found []finding
	for _, p := range providers {
		name := "provider " + p.Name
		switch {
		case p.DeletedAt != nil:
			found = append(found, finding{Check: name, Status: isOK, Detail: fmt.Sprintf("deleted, with %d workspaces left there", p.Claimed+p.Unclaimed)})
		case p.Error != "":
			found = append(found, finding{name, isError, printable.Headline(p.Error), "fix its config and apply it again"})
		case p.Breaker != nil:
			found = append(found, finding{
				name, isError, "the breaker is open: " + p.Breaker.Reason,
				"look at \"prewarm inventory --provider " + p.Name + "\", then \"prewarm provider resume " + p.Name + "\"",
			})
		default:
			found = append(found, finding{Check: name, Status: isOK, Detail: p.Kind})
		}
	}
	return found, nil
}

func forgeFindings(ctx context.Context, c *sdk.Client) ([]finding, error) {
	forges, err := c.Forges(ctx)
	if err != nil {
		return nil, err
	}
	var found []finding
	for _, f := range forges {
		name := "forge " + f.Name
		switch {
		case f.Status.Error != "":
			found = append(found, finding{name, isError, printable.Headline(f.Status.Error), "run \"prewarm forge check " + f.Name + "\""})
		case f.Unserved > 0:
			found = append(found, finding{name, isWarning, fmt.Sprintf("%d jobs that no preset can serve", f.Unserved), "run \"prewarm job list --unserved\""})
		default:
			found = append(found, finding{Check: name, Status: isOK, Detail: f.Kind})
		}
	}
	return found, nil
}

func poolFindings(ctx context.Context, c *sdk.Client) ([]finding, error) {
	presets, err := c.Presets(ctx)
	if err != nil {
		return nil, err
	}
	var found []finding
	pools := 0
	for _, p := range presets {
		if p.Pool {
			pools++
		}
		name := "pool " + presetName(p)
		switch {
		case p.Error != "":
			found = append(found, finding{name, isError, printable.Headline(p.Error), "run \"prewarm preset explain " + presetName(p) + "\""})
		case p.Failures > 0:
			found = append(found, finding{name, isError, failuresNote(p), "run \"prewarm preset failures " + presetName(p) + "\""})
		}
	}
	if len(found) == 0 {
		found = append(found, finding{Check: "pools", Status: isOK, Detail: fmt.Sprintf("%d", pools)})
	}
	return found, nil
}
