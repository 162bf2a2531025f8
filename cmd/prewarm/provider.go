package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) providerCommand() *cobra.Command {
	return a.group("provider", "See providers, and check one before trusting it",
		`A provider is where workspaces live, such as this machine or a cloud. Providers are made and changed with "prewarm
apply", and deleted with "prewarm provider delete".`,
		"  prewarm provider list",
		a.providerListCommand(), a.providerCheckCommand(), a.providerMachinesCommand(), a.providerConfirmCommand(),
		a.providerResumeCommand(), a.providerDeleteCommand())
}

func (a *app) providerListCommand() *cobra.Command {
	return newCommand("list", "List providers, and whether they work",
		`Lists the providers, with what they can do (agent: it runs templates with an agent). WORKS is as the
server that answers sees it. PROTOCOL is what is spoken with an executable, and whether it gives a schema of what it
understands. Orphans are deleted only at a provider that is CONFIRMED. One that is deleted is listed until nothing is
left there.`,
		"  prewarm provider list",
		list(a, view[sdk.Provider]{ask: noArg((*sdk.Client).Providers), text: a.providersText}))
}

func (a *app) providersText(providers []sdk.Provider) string {
	t := a.newTable("NAME", "KIND", "CAN", "PROTOCOL", "CONFIRMED", "WORKS")
	for _, p := range providers {
		works := cell{"yes", green}
		if p.Breaker != nil {
			works = cell{"breaker open: " + p.Breaker.Reason, red}
		}
		if p.Error != "" {
			works = cell{"no: " + printable.Headline(p.Error), red}
		}
		if p.DeletedAt != nil {
			works = a.deletedCell(p)
		}
		protocol := p.Protocol
		if protocol != "" && p.Schema {
			protocol += ", schema"
		} else if protocol != "" {
			protocol += ", no schema"
		}
		confirmed := cell{"yes", green}
		if !p.Confirmed {
			confirmed = cell{"no", yellow}
		}
		t.add(p.Name, p.Kind, strings.Join(p.Can, ", "), protocol, confirmed, works)
	}
	return t.String()
}

// deletedCell says since when a provider is deleted, and what keeps it listed.
func (a *app) deletedCell(p sdk.Provider) cell {
	waits := "until an inventory finds nothing"
	switch left := p.Claimed + p.Unclaimed; {
	case left == 1:
		waits = "1 workspace left"
	case left > 1:
		waits = fmt.Sprintf("%d workspaces left", left)
	}
	return cell{"deleted " + a.ago(*p.DeletedAt) + ", " + waits, yellow}
}

func (a *app) providerCheckCommand() *cobra.Command {
	var req sdk.CheckRequest
	var preset string
	cmd := newCommand("check PROVIDER", "Check a provider against the contract that all must keep",
		`Checks whether a provider does what Prewarm counts on. It must make one workspace where it is asked
twice for the same, find it by name and id, leave others alone, and delete everything. There is one line a case, as
soon as it is over; on a cloud that takes minutes.

The check makes a few workspaces one after the other, of --preset or else of the first preset on the provider. It
deletes them, and touches nothing else. Their names begin with "check-". An interrupt ends it, after what was made is
deleted.`,
		"  prewarm provider check openstack --preset runners/small",
		a.asks(func(ctx context.Context, c *sdk.Client, name string) error {
			var verdicts []sdk.CheckVerdict
			err := c.CheckProvider(ctx, name, req, func(v sdk.CheckVerdict) error {
				verdicts = append(verdicts, v)
				if a.output == "json" {
					return nil
				}
				return a.writeVerdict(v)
			})
			if err == nil && len(verdicts) == 0 {
				err = errors.New("the server said nothing")
			}
			if err != nil {
				return xerrors.Errorf("check provider %s: %w", name, err)
			}
			return a.concludeCheck(name, verdicts)
		}))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		var ok bool
		req.Template, req.Preset, ok = strings.Cut(preset, "/")
		return usageErrorIf(preset != "" && !ok, "--preset %q: a preset is written TEMPLATE/PRESET", preset)
	}
	cmd.Flags().StringVar(&preset, "preset", "", "what to make, as TEMPLATE/PRESET; the provider's first where empty")
	a.completeFlag(cmd, "preset", "TEMPLATE/PRESET")
	return cmd
}

// writeVerdict writes one line, with a reason under it where it failed. The columns are fixed, since the lines come one
// by one.
func (a *app) writeVerdict(v sdk.CheckVerdict) error {
	word := map[string]cell{
		"passed": {"ok", green}, "failed": {"FAILED", red}, "not_offered": {"not offered", yellow},
	}[v.Outcome]
	if v.Outcome == "failed" && v.Nicer {
		word = cell{"WARNING", yellow}
	}
	padding := strings.Repeat(" ", max(1, 12-len(word.text)))
	if a.newTable().colour {
		word.text = string(word.style) + word.text + reset
	}
	line := fmt.Sprintf("%s%s%-30s%s", word.text, padding, oneLine(v.Case), oneLine(v.About))
	if v.Outcome != "not_offered" {
		line += fmt.Sprintf(" (%.1f s)", float64(v.TookMS)/1000)
	}
	if v.Detail != "" {
		line += "\n            " + strings.ReplaceAll(strings.TrimSpace(printable.Text(v.Detail)), "\n", "\n            ")
	}
	return a.write(line + "\n")
}

// concludeCheck says whether the provider is safe to use, which is an error if it is not.
func (a *app) concludeCheck(name string, verdicts []sdk.CheckVerdict) error {
	failed, nicer := 0, 0
	for _, v := range verdicts {
		switch {
		case v.Outcome == "failed" && v.Nicer:
			nicer++
		case v.Outcome == "failed":
			failed++
		}
	}
	text := ""
	if failed == 0 {
		text = fmt.Sprintf("Provider %s is safe to use.", name)
		if nicer > 0 {
			text += " Each warning costs retries, and nothing else."
		}
		text += "\n"
	}
	err := a.print(verdicts, text)
	if err == nil && failed > 0 {
		err = xerrors.Errorf("provider %s is not safe to use: %d of %d cases failed", name, failed, len(verdicts))
	}
	return err
}
