package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) quotaCommand() *cobra.Command {
	return a.group("quota", "Show and set how many workspaces may be claimed at once",
		`Quotas bound how many workspaces of the organization are claimed at once, over all templates: by all users
together, and by each of them. A template's own limits are in its configuration, and hold as well.`,
		"  prewarm quota set --maximum 50 --maximum-per-user 3", a.quotaListCommand(), a.quotaSetCommand())
}

func (a *app) quotaListCommand() *cobra.Command {
	return newCommand("list", "Show the quotas, and how much is claimed",
		"Shows how many workspaces may be claimed at once, and how many are claimed or waited for.",
		"  prewarm quota list",
		list(a, view[sdk.Quota]{ask: noArg((*sdk.Client).Quotas), text: a.quotasText}))
}

func (a *app) quotaSetCommand() *cobra.Command {
	var req sdk.QuotaRequest
	var maximum, perUser string
	cmd := newCommand("set", "Change the quotas",
		`Changes how many workspaces of the organization may be claimed at once. The value "none", or 0, is any
number. What is not given stays as it is. What is claimed stays claimed, also where it is more than that. Only owners
may.`,
		`  prewarm quota set --maximum 50 --maximum-per-user 3
  prewarm quota set --maximum none`,
		show(a, func(c *sdk.Client, ctx context.Context, _ string) (sdk.Quota, error) {
			return c.SetQuota(ctx, req)
		}, func(quota sdk.Quota) string { return a.quotasText([]sdk.Quota{quota}) }))
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if req.Maximum, err = quotaFlag("maximum", maximum); err != nil {
			return err
		}
		if req.MaximumPerUser, err = quotaFlag("maximum-per-user", perUser); err != nil {
			return err
		}
		return usageErrorIf(req.Maximum == nil && req.MaximumPerUser == nil,
			"give --maximum, --maximum-per-user or both")
	}
	cmd.Flags().StringVar(&maximum, "maximum", "", "how many all users together may have claimed; none for any number")
	cmd.Flags().StringVar(&perUser, "maximum-per-user", "", "how many each user may have claimed; none for any number")
	return cmd
}

// quotaFlag reads a limit; nil where none is given, 0 for any number.
func quotaFlag(name, text string) (*int32, error) {
	switch text {
	case "":
		return nil, nil //nolint:nilnil // Not given.
	case "none":
		return new(int32), nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return nil, usageErrorf("--%s %q: write a number of 1 or more, or none", name, text)
	}
	limit := int32(n)
	return &limit, nil
}

func (a *app) quotasText(quotas []sdk.Quota) string {
	t := a.newTable("ORGANIZATION", "CLAIMED", "MAXIMUM", "PER USER")
	for _, q := range quotas {
		t.add(q.Organization, strconv.Itoa(int(q.Claimed)), limitText(q.Maximum), limitText(q.MaximumPerUser))
	}
	return t.String()
}

func limitText(limit *int32) string {
	if limit == nil {
		return "none"
	}
	return strconv.Itoa(int(*limit))
}
