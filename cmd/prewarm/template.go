package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) templateCommand() *cobra.Command {
	return a.group("template", "See, deprecate and delete templates",
		`A template is a named kind of workspace on one provider. Its versions are immutable; one of them is active.
Templates are made and changed with "prewarm apply".`,
		"  prewarm template list",
		a.templateListCommand(), a.templateShowCommand(), a.templateExportCommand(), a.templateVersionsCommand(), a.templateRollbackCommand(),
		a.templateDeprecateCommand(), a.templateUndeprecateCommand(), a.templateDeleteCommand())
}

func (a *app) templateListCommand() *cobra.Command {
	return newCommand("list", "List templates",
		"Lists the templates of the organization.",
		"  prewarm template list -o json",
		list(a, view[sdk.Template]{
			ask: noArg((*sdk.Client).Templates), text: a.templatesText,
			none: "There are no templates yet. Make some with: prewarm apply -f examples/quickstart.yaml",
		}))
}

func (a *app) templatesText(templates []sdk.Template) string {
	t := a.newTable("NAME", "PROVIDER", "VERSION", "PRESETS", "STATUS", "UPDATED", "DESCRIPTION")
	for _, tpl := range templates {
		t.add(tpl.Name, tpl.Provider, tpl.ActiveVersion, strings.Join(tpl.Presets, ", "), a.templateStatus(tpl),
			a.ago(tpl.UpdatedAt), tpl.Description)
	}
	return t.String()
}

func (a *app) templateStatus(t sdk.Template) cell {
	if t.DeprecatedAt != nil {
		return cell{"deprecated " + a.ago(*t.DeprecatedAt), yellow}
	}
	return cell{"active", plain}
}

func (a *app) templateShowCommand() *cobra.Command {
	return newCommand("show TEMPLATE", "Show one template and its versions",
		"Shows one template with its presets and versions; with -o json also the spec of each version.",
		"  prewarm template show quickstart",
		show(a, (*sdk.Client).Template, a.templateText))
}

func (a *app) templateText(tpl sdk.Template) string {
	t := a.newTable()
	t.add("Template", tpl.Name)
	t.addIf("Description", tpl.Description)
	t.add("Organization", tpl.Organization)
	t.add("Provider", tpl.Provider)
	t.add("Version", tpl.ActiveVersion)
	t.add("Presets", strings.Join(tpl.Presets, ", "))
	t.add("Status", a.templateStatus(tpl))
	t.add("Boot timeout", tpl.BootTimeout)
	t.addIf("Max surge", tpl.MaxSurge)
	t.addIf("Max unavailable", tpl.MaxUnavailable)
	t.addIf("Progress deadline", tpl.ProgressDeadline)
	t.addIf("Creates in flight", tpl.CreatesInFlight)
	if tpl.KeepOutdated {
		t.add("Outdated", "prebuilds of older versions stay claimable")
	}
	if tpl.KeepFailures > 0 {
		t.add("Failures", fmt.Sprintf("%d of each preset kept for %s", tpl.KeepFailures, tpl.KeepTTL))
	}
	if tpl.MaxUses > 1 {
		t.add("Reuse", fmt.Sprintf("a workspace serves up to %d claims", tpl.MaxUses))
	}
	t.add("Created", a.ago(tpl.CreatedAt))
	t.add("Updated", a.ago(tpl.UpdatedAt))
	if len(tpl.Versions) == 0 {
		return t.String()
	}
	versions := a.newTable("VERSION", "ACTIVE", "PROVIDER", "CREATED", "BY", "HASH")
	for _, v := range tpl.Versions {
		versions.add(v.Number, activeCell(v.Active), v.Provider, a.ago(v.CreatedAt), v.CreatedBy, v.Hash)
	}
	return t.String() + "\n" + versions.String()
}

func (a *app) templateDeprecateCommand() *cobra.Command {
	cmd := newCommand("deprecate TEMPLATE", "Let a template's pools run empty",
		`Marks a template as deprecated: its pools scale to zero and nothing more can be claimed from it. What is claimed
stays until it is released. It can be undone with "undeprecate".`,
		"  prewarm template deprecate quickstart",
		act(a, (*sdk.Client).DeprecateTemplate, "deprecated", "Deprecated template %s.\n"))
	cmd.ValidArgsFunction = a.completeTemplates(false)
	return cmd
}

func (a *app) templateUndeprecateCommand() *cobra.Command {
	cmd := newCommand("undeprecate TEMPLATE", "Let a deprecated template's pools fill again",
		"Undoes \"deprecate\": the pools of the template fill again.",
		"  prewarm template undeprecate quickstart",
		act(a, (*sdk.Client).UndeprecateTemplate, "undeprecated", "Undeprecated template %s.\n"))
	cmd.ValidArgsFunction = a.completeTemplates(true)
	return cmd
}

func (a *app) templateDeleteCommand() *cobra.Command {
	cmd := newCommand("delete TEMPLATE", "Delete a template",
		`Deletes a template with its presets and versions. Its prebuilds are deleted; what is claimed stays until it is
released. It cannot be undone, but the template can be applied again.`,
		"  prewarm template delete quickstart",
		act(a, (*sdk.Client).DeleteTemplate, "deleted", "Deleted template %s.\n"))
	a.confirmFirst(cmd, "Delete template %s and its prebuilds for good?")
	return cmd
}
