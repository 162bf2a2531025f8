package sdk

import (
	"context"
)

// Quota bounds how many workspaces of an organization are claimed at once, over all of its templates. Nil: any number.
type Quota struct {
	Organization   string `json:"organization"`
	Maximum        *int32 `json:"maximum" doc:"By all users together; null for any number"`
	MaximumPerUser *int32 `json:"maximum_per_user" doc:"By each user; null for any number"`
	Claimed        int32  `json:"claimed" doc:"Claimed now, or waited for"`
}

// QuotaRequest changes a quota; what is left out stays as it is.
type QuotaRequest struct {
	Maximum        *int32 `json:"maximum,omitempty" doc:"By all users together; 0 for any number"`
	MaximumPerUser *int32 `json:"maximum_per_user,omitempty" doc:"By each user; 0 for any number"`
}

// Quotas lists the quotas of one's organization.
func (c *Client) Quotas(ctx context.Context) ([]Quota, error) {
	return get[[]Quota](ctx, c, "quotas")
}

// SetQuota changes the quota of one's organization. Who has more already keeps it.
func (c *Client) SetQuota(ctx context.Context, req QuotaRequest) (Quota, error) {
	return ask[Quota](ctx, c, put("quotas").with(req).repeatable())
}
