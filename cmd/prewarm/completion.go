package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// completeNames makes a completion of the first argument of what list returns. Errors complete to nothing: there is no
// place to show them.
func (a *app) completeNames(list func(context.Context, *sdk.Client) ([]string, error)) cobra.CompletionFunc {
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
		names, err := list(ctx, client)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) completePresets(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeNames(func(ctx context.Context, client *sdk.Client) ([]string, error) {
		presets, err := client.Presets(ctx)
		var names []string
		for _, p := range presets {
			names = append(names, presetName(p))
		}
		return names, err
	})(cmd, args, prefix)
}

func (a *app) completeWorkspaces(
	cmd *cobra.Command, args []string, prefix string,
) ([]string, cobra.ShellCompDirective) {
	return a.completeNames(func(ctx context.Context, client *sdk.Client) ([]string, error) {
		page, err := client.Workspaces(ctx, sdk.WorkspaceFilter{})
		var names []string
		for _, w := range page.Workspaces {
			names = append(names, cobra.CompletionWithDesc(w.Name, w.Template+"/"+w.Preset+", "+w.State))
		}
		return names, err
	})(cmd, args, prefix)
}

func (a *app) completeProviders(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeNames(func(ctx context.Context, client *sdk.Client) ([]string, error) {
		providers, err := client.Providers(ctx)
		var names []string
		for _, p := range providers {
			names = append(names, p.Name)
		}
		return names, err
	})(cmd, args, prefix)
}

func (a *app) completeTemplates(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeNames(func(ctx context.Context, client *sdk.Client) ([]string, error) {
		templates, err := client.Templates(ctx)
		var names []string
		for _, t := range templates {
			names = append(names, t.Name)
		}
		return names, err
	})(cmd, args, prefix)
}
