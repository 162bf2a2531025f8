package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) forgeCommand() *cobra.Command {
	return a.group("forge", "Connect repositories, organizations and enterprises of GitHub or Gitea",
		`A forge's queued jobs make runner presets grow, and its running jobs claim runners. What Prewarm speaks to is an
entity: a repository, an organization or an enterprise, reached with a credential. See docs/forges.md.`,
		"  prewarm forge list",
		a.forgeCredentialCommand(), a.forgeAddCommand("add"), a.forgeAddCommand("update"), a.forgeListCommand(),
		a.forgeShowCommand(), a.forgeDeleteCommand(), a.forgeStopCommand(), a.forgeStartCommand(), a.forgeCheckCommand(), a.forgeWaitCommand(),
		a.forgeRotateCommand(), a.forgeResealCommand(), a.forgeWebhookCommand())
}

// secretFile reads a secret from a file, or from standard input where that is "-". Secrets are never arguments, which
// everybody on the machine can see.
func (a *app) secretFile(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	var content []byte
	var err error
	if name == "-" {
		content, err = io.ReadAll(io.LimitReader(a.stdin, 1<<20))
	} else {
		content, err = os.ReadFile(name)
	}
	if err != nil {
		return "", xerrors.Errorf("read secret: %w", err)
	}
	secret := strings.TrimSpace(string(content))
	if secret == "" {
		return "", xerrors.Errorf("read secret: %s is empty", name)
	}
	return secret, nil
}

// forgeAddCommand is add, or update, which differ in their words only.
func (a *app) forgeAddCommand(use string) *cobra.Command {
	var req sdk.PutForgeEntity
	var secretFile string
	cmd := newCommand(use+" FORGE",
		map[string]string{"add": "Add an entity of a forge", "update": "Change an entity of a forge"}[use],
		`Adds or changes an entity. Its scope and path are fixed. Without --webhook-secret-file a new one gets a
random webhook secret, which is printed this once. "prewarm forge webhook install" needs nobody to know it.`,
		"  prewarm forge "+use+" acme --scope organization --path acme --credential acme-app",
		a.asks(func(ctx context.Context, c *sdk.Client, name string) error {
			if use == "update" {
				if _, err := c.Forge(ctx, name); err != nil {
					return err
				}
			}
			return a.printSavedForge(c.PutForge(ctx, name, req))
		}))
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if use == "add" && req.Scope == "" {
			return usageErrorf("--scope is missing: repository, organization or enterprise")
		}
		req.WebhookSecret, err = a.secretFile(secretFile)
		return err
	}
	cmd.Flags().StringVar(&req.Scope, "scope", "", "repository, organization or enterprise")
	cmd.Flags().StringVar(&req.Path, "path", "", "owner/repository, owner, or the enterprise's slug; none for a whole Gitea")
	cmd.Flags().StringVar(&req.Credential, "credential", "", "name of the credential")
	cmd.Flags().StringVar(&req.Balance, "balance", "", "among presets of one priority: pack or spread")
	cmd.Flags().StringVar(&secretFile, "webhook-secret-file", "", "file of the webhook secret, - for standard input")
	if use == "add" { // its name is new
		cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return cmd
}

func (a *app) printSavedForge(saved sdk.SavedForgeEntity, err error) error {
	if err != nil {
		return err
	}
	if saved.WebhookSecret != "" {
		a.hint("This is the only time that the webhook secret is shown.")
	}
	if saved.HookError != "" {
		a.hint("The webhook did not get the new secret: %s", printable.Text(saved.HookError))
	}
	return a.print(saved, a.savedForgeText(saved))
}

func (a *app) forgeListCommand() *cobra.Command {
	var watch watchFlags
	cmd := newCommand("list", "List entities of forges, and how it goes with them",
		"Lists the entities, their open jobs and runners, and whether their forge answers."+watchHelp("entity"),
		"  prewarm forge list\n  prewarm forge list --watch",
		list(a, view[sdk.ForgeEntity]{
			ask: noArg((*sdk.Client).Forges), text: a.forgesText, watch: &watch,
			name: func(f sdk.ForgeEntity) string { return f.Name }, line: forgeLine, still: stillForge,
			none: "There are no forges. Add one with: prewarm forge credential add, then prewarm forge add",
		}))
	cmd.PreRunE = watch.check
	watch.add(cmd)
	return cmd
}

func (a *app) forgesText(forges []sdk.ForgeEntity) string {
	t := a.newTable("NAME", "KIND", "PATH", "QUEUED", "UNSERVED", "IN PROGRESS", "RUNNERS", "RATE", "STATUS")
	for _, f := range forges {
		t.add(f.Name, f.Kind, f.Path, f.Queued, f.Unserved, f.InProgress, f.Runners, rateText(f.Status), forgeCell(f))
	}
	return t.String()
}

func forgeLine(f sdk.ForgeEntity) string {
	line := fmt.Sprintf("%s kind=%s path=%s queued=%d unserved=%d in_progress=%d runners=%d", f.Name, f.Kind, f.Path, f.Queued,
		f.Unserved, f.InProgress, f.Runners)
	return noted(line, forgeCell(f).text)
}

// stillForge is an entity without what each round with its forge, and each delivery, changes.
func stillForge(f sdk.ForgeEntity) sdk.ForgeEntity {
	f.Status = sdk.ForgeStatus{Running: f.Status.Running, Error: f.Status.Error, RunnersError: f.Status.RunnersError}
	return f
}

func rateText(s sdk.ForgeStatus) string {
	if s.RateLimit == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.RateRemaining, s.RateLimit)
}

func forgeCell(f sdk.ForgeEntity) cell {
	switch {
	case f.StoppedAt != nil:
		if f.Draining {
			return cell{"stopped, idle runners go: " + f.Stopped, yellow}
		}
		return cell{"stopped: " + f.Stopped, yellow}
	case f.Status.Error != "":
		return cell{"error: " + printable.Headline(f.Status.Error), red}
	default:
		return cell{"running", green}
	}
}

func (a *app) forgeText(f sdk.ForgeEntity) string {
	return a.savedForgeText(sdk.SavedForgeEntity{ForgeEntity: f})
}

func (a *app) savedForgeText(f sdk.SavedForgeEntity) string {
	t := a.newTable()
	t.add("Forge", f.Name)
	t.add("Kind", f.Kind)
	t.add("Scope", f.Scope)
	t.add("Path", f.Path)
	t.add("Credential", f.Credential)
	t.add("Balance", f.Balance)
	t.add("Webhook", f.WebhookURL)
	t.add("Installed", map[bool]string{true: "by Prewarm", false: "not by Prewarm"}[f.HookID != 0])
	t.add("Presets", strings.Join(f.Presets, ", "))
	t.add("Jobs", fmt.Sprintf("%d queued, %d of them unserved, %d in progress", f.Queued, f.Unserved, f.InProgress))
	t.add("Runners", f.Runners)
	t.add("Status", forgeCell(f.ForgeEntity))
	t.add("Last asked", a.agoOr(f.Status.SucceededAt, "never"))
	t.add("Last delivery", a.agoOr(f.Status.DeliveryAt, "never"))
	t.addIf("Asks again", a.agoOr(f.Status.WaitUntil, ""))
	if until := f.Status.RunnersWaitUntil; until != nil {
		t.add("Runners wait", cell{fmt.Sprintf("until %s none is registered or unregistered: %s", until.UTC().Format(time.RFC3339),
			f.Status.RunnersError), yellow})
	}
	t.addIf("Rate", rateText(f.Status))
	t.addIf("Old secret ends", a.agoOr(f.SecretOverlap, ""))
	t.addIf("Webhook secret", f.WebhookSecret)
	return t.String()
}

func (a *app) forgeShowCommand() *cobra.Command {
	return newCommand("show FORGE", "Show one entity", "Shows one entity of a forge, its status and its presets.",
		"  prewarm forge show acme", show(a, (*sdk.Client).Forge, a.forgeText))
}

func (a *app) forgeStartCommand() *cobra.Command {
	cmd := newCommand("start FORGE", "Make runners for an entity again", `Undoes "prewarm forge stop".`,
		"  prewarm forge start acme", show(a, (*sdk.Client).StartForge, a.forgeText))
	cmd.ValidArgsFunction = a.completeForges(func(f sdk.ForgeEntity) bool { return f.Stopped != "" })
	return cmd
}

func (a *app) forgeStopCommand() *cobra.Command {
	var req sdk.StopForgeEntity
	cmd := newCommand("stop FORGE", "Make no new runners for an entity",
		`Stops an entity until "prewarm forge start". No new runners are made for it, neither for jobs nor to be
idle, and "prewarm preset explain" says so. Idle runners stay, and take jobs that the forge gives them; with --drain
they go. Runners that are at a job finish it.`,
		`  prewarm forge stop acme --reason "moving the organization"
  prewarm forge stop acme --drain --reason "the forge is moved tonight"`,
		show(a, func(c *sdk.Client, ctx context.Context, name string) (sdk.ForgeEntity, error) {
			return c.StopForge(ctx, name, req)
		}, a.forgeText))
	cmd.PreRunE = func(*cobra.Command, []string) error { return checkReason(req.Reason) }
	cmd.ValidArgsFunction = a.completeForges(func(f sdk.ForgeEntity) bool { return f.Stopped == "" })
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why; shown to everybody who wonders")
	cmd.Flags().BoolVar(&req.Drain, "drain", false, "runners without a job go")
	return cmd
}

func (a *app) forgeDeleteCommand() *cobra.Command {
	return newCommand("delete FORGE", "Delete an entity", "Deletes an entity that no preset names and that has no runners.",
		"  prewarm forge delete acme", act(a, (*sdk.Client).DeleteForge, "done", "Deleted forge %s.\n"))
}

func (a *app) forgeCheckCommand() *cobra.Command {
	return newCommand("check FORGE", "Ask a forge for what Prewarm needs from it",
		"Lists the runners and looks at the webhook, and says what works and which permission is missing. Changes nothing.",
		"  prewarm forge check acme",
		a.asks(func(ctx context.Context, c *sdk.Client, name string) error {
			check, err := c.CheckForge(ctx, name)
			if err != nil {
				return err
			}
			t := a.newTable("WHAT", "OUTCOME", "DETAIL")
			for _, s := range check.Steps {
				style := map[string]style{"passed": green, "failed": red, "not_offered": yellow}[s.Outcome]
				t.add(s.Name, cell{s.Outcome, style}, s.Detail)
			}
			if err := a.print(check, t.String()); err != nil || check.OK {
				return err
			}
			return xerrors.Errorf("forge %s does not work as it should", name)
		}))
}

func (a *app) forgeRotateCommand() *cobra.Command {
	var req sdk.RotateForgeSecret
	var secretFile string
	var overlap time.Duration
	cmd := newCommand("rotate-secret FORGE", "Give an entity another webhook secret",
		`Gives an entity another webhook secret, made by chance and printed this once unless --webhook-secret-file names one. The
one before stays good for --overlap. A webhook that Prewarm installed gets the new one.`,
		"  prewarm forge rotate-secret acme --overlap 1h",
		a.asks(func(ctx context.Context, c *sdk.Client, name string) error {
			return a.printSavedForge(c.RotateForgeSecret(ctx, name, req))
		}))
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if overlap < time.Second {
			return usageErrorf("--overlap must be at least 1s")
		}
		req.OverlapS = int(overlap.Seconds())
		req.WebhookSecret, err = a.secretFile(secretFile)
		return err
	}
	cmd.Flags().StringVar(&secretFile, "webhook-secret-file", "", "file of the webhook secret, - for standard input")
	cmd.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long the secret before stays good")
	return cmd
}

func (a *app) forgeResealCommand() *cobra.Command {
	return newCommand("reseal", "Seal all secrets with the newest encryption key",
		`Seals the secrets of all forges, the keys that sign instance tokens, and states of Terraform. It uses the first key of the
server's encryption keys file. Put a new key into every replica's file first; when this is done, the old one can be taken
out. Only owners may.`,
		"  prewarm forge reseal",
		show(a, noArg((*sdk.Client).ResealForges), func(r sdk.Resealed) string {
			return fmt.Sprintf("Resealed with key %s: %d credentials, %d forges, %d signing keys, %d Terraform states.\n", r.SealedBy,
				r.Credentials, r.Entities, r.SigningKeys, r.States)
		}))
}
