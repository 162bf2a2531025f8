package sdk

import (
	"context"
)

// Templates lists all templates of the organization.
func (c *Client) Templates(ctx context.Context) ([]Template, error) {
	return get[[]Template](ctx, c, "templates")
}

// Template looks one up, with its versions.
func (c *Client) Template(ctx context.Context, name string) (Template, error) {
	return get[Template](ctx, c, "templates", name)
}

// DeprecateTemplate scales a template's pools to zero (C4).
func (c *Client) DeprecateTemplate(ctx context.Context, name string) error {
	return c.do(ctx, post("templates", name, "deprecate").repeatable())
}

// UndeprecateTemplate lets its pools fill again.
func (c *Client) UndeprecateTemplate(ctx context.Context, name string) error {
	return c.do(ctx, remove("templates", name, "deprecate").repeatable())
}

// DeleteTemplate deletes a template; its unclaimed prebuilds go with it, claimed workspaces stay until released.
func (c *Client) DeleteTemplate(ctx context.Context, name string) error {
	return c.do(ctx, remove("templates", name).repeatable())
}

// Apply makes templates, versions and presets what a document says, or with DryRun says what it would change. Nothing
// is half applied. What is wrong with the document is in the Errors of an *Error of status 422.
func (c *Client) Apply(ctx context.Context, req ApplyRequest) (ApplyResult, error) {
	return ask[ApplyResult](ctx, c, post("apply").with(req))
}
