package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// completions are those of what a command's Use calls its first argument. Others are completed as files are.
func (a *app) completions() map[string]cobra.CompletionFunc {
	presets := completeNames(a, (*sdk.Client).Presets, presetName)
	workspaces := func(c *sdk.Client, ctx context.Context) ([]sdk.Workspace, error) {
		page, err := c.Workspaces(ctx, sdk.WorkspaceFilter{})
		return page.Workspaces, err
	}
	return map[string]cobra.CompletionFunc{
		"TEMPLATE/PRESET":   presets,
		"TEMPLATE[/PRESET]": presets,
		"TEMPLATE":          completeNames(a, (*sdk.Client).Templates, func(t sdk.Template) string { return t.Name }),
		"PROVIDER":          completeNames(a, (*sdk.Client).Providers, func(p sdk.Provider) string { return p.Name }),
		"FORGE":             completeNames(a, (*sdk.Client).Forges, func(f sdk.ForgeEntity) string { return f.Name }),
		"CREDENTIAL":        completeNames(a, (*sdk.Client).ForgeCredentials, func(c sdk.ForgeCredential) string { return c.Name }),
		"WORKSPACE":         completeNames(a, workspaces, described),
	}
}

// completeTemplates completes templates that are deprecated, or those that are not.
func (a *app) completeTemplates(deprecated bool) cobra.CompletionFunc {
	return completeNames(a, only((*sdk.Client).Templates, func(t sdk.Template) bool { return (t.DeprecatedAt != nil) == deprecated }),
		func(t sdk.Template) string { return t.Name })
}

func (a *app) completePresets(can func(sdk.Preset) bool) cobra.CompletionFunc {
	return completeNames(a, only((*sdk.Client).Presets, can), presetName)
}

func (a *app) completeProviders(can func(sdk.Provider) bool) cobra.CompletionFunc {
	return completeNames(a, only((*sdk.Client).Providers, can), func(p sdk.Provider) string { return p.Name })
}

func (a *app) completeForges(can func(sdk.ForgeEntity) bool) cobra.CompletionFunc {
	return completeNames(a, only((*sdk.Client).Forges, can), func(f sdk.ForgeEntity) string { return f.Name })
}

// completeTokens completes those that have not been revoked.
func (a *app) completeTokens() cobra.CompletionFunc {
	return completeNames(a, only((*sdk.Client).Tokens, func(t sdk.Token) bool { return t.RevokedAt == nil }),
		func(t sdk.Token) string { return t.Name })
}

// completePauses completes a scope and its target: those with a pause of their own, or those without.
func (a *app) completePauses(paused bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		pauses, directive := completeNames(a, (*sdk.Client).Pauses, func(p sdk.Pause) string {
			return strings.TrimSpace(p.Scope + " " + p.Target)
		})(cmd, nil, typed)
		var offered []string
		switch {
		case len(args) == 0:
			for _, scope := range scopes {
				has := slices.ContainsFunc(pauses, func(p string) bool { return p == scope || strings.HasPrefix(p, scope+" ") })
				if has == paused || !paused && scope != "global" { // another target of that scope can be paused
					offered = append(offered, scope)
				}
			}
		case len(args) == 1 && paused:
			for _, p := range pauses {
				if target, ok := strings.CutPrefix(p, args[0]+" "); ok {
					offered = append(offered, target)
				}
			}
		case len(args) == 1:
			targets := map[string]cobra.CompletionFunc{
				"provider": a.completeProviders(func(p sdk.Provider) bool { return p.DeletedAt == nil }),
				"template": a.completions()["TEMPLATE"],
				"preset":   a.completions()["TEMPLATE/PRESET"],
			}[args[0]]
			if targets == nil {
				break
			}
			offered, directive = targets(cmd, nil, typed)
			offered = slices.DeleteFunc(offered, func(target string) bool { return slices.Contains(pauses, args[0]+" "+target) })
		}
		return offered, directive
	}
}

// only is that list without what the command cannot act on.
func only[T any](
	list func(*sdk.Client, context.Context) ([]T, error), can func(T) bool,
) func(*sdk.Client, context.Context) ([]T, error) {
	return func(c *sdk.Client, ctx context.Context) ([]T, error) {
		all, err := list(c, ctx)
		return slices.DeleteFunc(all, func(each T) bool { return !can(each) }), err
	}
}

func described(w sdk.Workspace) string {
	return cobra.CompletionWithDesc(w.Name, w.Template+"/"+w.Preset+", "+w.State)
}

// completeStates completes workspaces in these states: what the command can act on.
func (a *app) completeStates(states ...string) cobra.CompletionFunc {
	return completeNames(a, func(c *sdk.Client, ctx context.Context) (all []sdk.Workspace, err error) {
		for _, state := range states {
			page, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: state})
			if err != nil {
				return nil, err
			}
			for _, w := range page.Workspaces {
				if w.State == state {
					all = append(all, w)
				}
			}
		}
		return all, nil
	}, described)
}

// completeNames makes a completion of the first argument of what list returns. Errors complete to nothing: there is no
// place to show them.
func completeNames[T any](
	a *app, list func(*sdk.Client, context.Context) ([]T, error), name func(T) string,
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || a.takeEnv(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		client, err := a.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), a.completionTimeout)
		defer cancel()
		all, err := list(client, ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return lists.Of(all, name), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag completes the value of a flag as an argument of that name, such as PROVIDER.
func (a *app) completeFlag(cmd *cobra.Command, flag, argument string) {
	must(cmd.RegisterFlagCompletionFunc(flag, a.completions()[argument]))
}

// oneOf completes the value of a flag that can have these.
func oneOf(cmd *cobra.Command, flag string, values ...string) {
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
}
