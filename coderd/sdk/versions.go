package sdk

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// TemplateVersion is one of the versions of a template without its spec.
type TemplateVersion struct {
	ID        uuid.UUID `json:"id"`
	Number    int       `json:"number"`
	Hash      string    `json:"hash"`
	Active    bool      `json:"active"`
	Provider  string    `json:"provider"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	Unclaimed int       `json:"unclaimed" doc:"Its workspaces that nobody has, whatever their state"`
	Claimed   int       `json:"claimed" doc:"Its workspaces that somebody has"`
}

// TemplateVersionSpec is one version with all that makes it what it is.
type TemplateVersionSpec struct {
	Version
	Text string `json:"text" doc:"Provider, spec and agent as YAML with sorted keys, for people to read and compare"`
}

// TemplateFile is a template as a file.
type TemplateFile struct {
	Template string `json:"template"`
	Document string `json:"document" doc:"In YAML, as an apply takes it: applied, it changes nothing. The provider is named and not in it"`
}

// TemplateRollout is how far the active version of a template has come.
type TemplateRollout struct {
	Template         string          `json:"template"`
	Version          int             `json:"version" doc:"Number of the active version"`
	Back             int             `json:"back,omitempty" doc:"Number of the version that a rollback goes to; absent where there is none"`
	ProgressDeadline string          `json:"progress_deadline" doc:"By when the first prebuild of a version must be ready; 0s: at any time"`
	Presets          []PresetRollout `json:"presets"`
}

// PresetRollout is how far the active version has come in one preset.
type PresetRollout struct {
	Preset     string         `json:"preset"`
	Pool       bool           `json:"pool" doc:"Whether it has a prebuilds block"`
	Desired    int            `json:"desired"`
	Rollout    *Rollout       `json:"rollout,omitempty" doc:"While a version replaces another"`
	BeganAt    *time.Time     `json:"began_at,omitempty" doc:"Since when its prebuilds should be what they should be now"`
	Proven     bool           `json:"proven" doc:"A prebuild as they should be now was ready at least once"`
	DeadlineAt *time.Time     `json:"deadline_at,omitempty" doc:"When the rollout stops unless a prebuild is ready by then"`
	Failures   int            `json:"failures,omitempty" doc:"Rounds of failed creates in a row"`
	Fault      string         `json:"fault,omitempty" doc:"Of the last failed create, where there are failures"`
	Paused     string         `json:"paused,omitempty" doc:"The scope and the reason of the pause that holds for it"`
	Versions   []VersionSlots `json:"versions" doc:"Those that it has workspaces of, the newest first"`
}

// VersionSlots are the workspaces of one preset and version.
type VersionSlots struct {
	Version int   `json:"version"`
	Active  bool  `json:"active"`
	Slots   Slots `json:"slots"`
}

// TemplateVersions lists one page of the versions of a template, the newest first, below the number before where it is
// not 0. A limit of 0 is the server's choice.
func (c *Client) TemplateVersions(ctx context.Context, template string, limit, before int) (TemplateVersionList, error) {
	return ask[TemplateVersionList](ctx, c, read("templates", template, "versions").where(query{
		"limit": limit, "before": before,
	}))
}

// TemplateVersion looks one up with its spec.
func (c *Client) TemplateVersion(ctx context.Context, template string, number int) (TemplateVersionSpec, error) {
	return get[TemplateVersionSpec](ctx, c, "templates", template, "versions", strconv.Itoa(number))
}

// TemplateRollout says how far the active version of a template has come.
func (c *Client) TemplateRollout(ctx context.Context, template string) (TemplateRollout, error) {
	return get[TemplateRollout](ctx, c, "templates", template, "rollout")
}

// ExportTemplate writes a template as a file that can be applied.
func (c *Client) ExportTemplate(ctx context.Context, template string) (TemplateFile, error) {
	return get[TemplateFile](ctx, c, "templates", template, "export")
}
