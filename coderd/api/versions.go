package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

type listVersionsInput struct {
	Name   string `path:"template" doc:"Name of the template"`
	Limit  int32  `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Before int32  `query:"before" minimum:"1" doc:"What the page before gave as next"`
}

type versionInput struct {
	Name   string `path:"template" doc:"Name of the template"`
	Number int32  `path:"version" doc:"Number of the version" minimum:"1"`
}

func (s *server) registerVersions() {
	answer(s, operation{
		id: "export-template", method: http.MethodGet, path: "/templates/{template}/export",
		action: auth.ActReadTemplates, tag: "templates", summary: "Write a template as a file that can be applied",
	}, s.exportTemplate)
	answer(s, operation{
		id: "list-template-versions", method: http.MethodGet, path: "/templates/{template}/versions",
		action: auth.ActReadTemplates, tag: "templates", summary: "List the versions of a template without their specs, newest first",
	}, s.listVersions)
	answer(s, operation{
		id: "get-template-version", method: http.MethodGet, path: "/templates/{template}/versions/{version}",
		action: auth.ActReadTemplates, tag: "templates", summary: "Show a version of a template with its spec",
	}, s.getVersion)
	answer(s, operation{
		id: "get-template-rollout", method: http.MethodGet, path: "/templates/{template}/rollout",
		action: auth.ActReadTemplates, tag: "templates", summary: "Show how far the active version of a template has come",
	}, s.getRollout)
}

// findTemplate is the template of that name, or a refusal that names what there is.
func (s *server) findTemplate(ctx context.Context, who auth.Identity, name string) (viewsdb.TemplateViewsRow, error) {
	rows, err := viewsdb.New(s.Store).TemplateViews(ctx, viewsdb.TemplateViewsParams{OrganizationID: who.OrganizationID, Name: &name})
	if err != nil {
		return viewsdb.TemplateViewsRow{}, xerrors.Errorf("read template: %w", err)
	}
	if len(rows) == 0 {
		return viewsdb.TemplateViewsRow{}, templates.UnknownTemplate(ctx, s.Store, who.OrganizationID, name)
	}
	return rows[0], nil
}

func (s *server) exportTemplate(ctx context.Context, who auth.Identity, in *templateInput) (sdk.TemplateFile, error) {
	document, err := s.Templates.Export(ctx, who, in.Name)
	if err != nil {
		return sdk.TemplateFile{}, err
	}
	return sdk.TemplateFile{Template: in.Name, Document: document}, nil
}

func (s *server) listVersions(
	ctx context.Context, who auth.Identity, in *listVersionsInput,
) (sdk.TemplateVersionList, error) {
	template, err := s.findTemplate(ctx, who, in.Name)
	if err != nil {
		return sdk.TemplateVersionList{}, err
	}
	rows, err := viewsdb.New(s.Store).VersionPage(ctx, viewsdb.VersionPageParams{
		TemplateID: template.ID, BeforeNumber: database.OrNull(in.Before), MaxVersions: in.Limit + 1,
	})
	if err != nil {
		return sdk.TemplateVersionList{}, xerrors.Errorf("list versions: %w", err)
	}
	rows, more := firstOf(rows, in.Limit)
	list := sdk.TemplateVersionList{Versions: []sdk.TemplateVersion{}}
	if more {
		list.Next = int(rows[len(rows)-1].Number)
	}
	slots, err := viewsdb.New(s.Store).VersionSlots(ctx, template.ID)
	if err != nil {
		return sdk.TemplateVersionList{}, xerrors.Errorf("count workspaces of versions: %w", err)
	}
	claimed, unclaimed := map[int32]int{}, map[int32]int{}
	for _, n := range slots {
		claimed[n.Number] += int(n.Claimed)
		unclaimed[n.Number] += int(n.Ready + n.Outdated + n.Starting + n.Leaving + n.Failed)
	}
	for _, v := range rows {
		list.Versions = append(list.Versions, sdk.TemplateVersion{
			ID: v.ID, Number: int(v.Number), Hash: v.Hash, Active: v.Active, Provider: v.Provider, CreatedAt: v.CreatedAt,
			CreatedBy: v.CreatedBy, Unclaimed: unclaimed[v.Number], Claimed: claimed[v.Number],
		})
	}
	return list, nil
}

func (s *server) getVersion(ctx context.Context, who auth.Identity, in *versionInput) (sdk.TemplateVersionSpec, error) {
	template, err := s.findTemplate(ctx, who, in.Name)
	if err != nil {
		return sdk.TemplateVersionSpec{}, err
	}
	v, err := viewsdb.New(s.Store).VersionNumbered(ctx, viewsdb.VersionNumberedParams{TemplateID: template.ID, Number: in.Number})
	if database.NoRows(err) {
		return sdk.TemplateVersionSpec{}, auth.Refuse(auth.ErrNotFound, "template %s has no version %d: the active one is %d", in.Name, in.Number,
			template.ActiveVersion)
	}
	if err != nil {
		return sdk.TemplateVersionSpec{}, xerrors.Errorf("read version: %w", err)
	}
	agent, err := agentConfigOf(v.Agent)
	if err != nil {
		return sdk.TemplateVersionSpec{}, err
	}
	text, err := versionText(v.Provider, v.Spec, v.Agent)
	if err != nil {
		return sdk.TemplateVersionSpec{}, err
	}
	return sdk.TemplateVersionSpec{
		Version: sdk.Version{
			ID: v.ID, Number: int(v.Number), Hash: v.Hash, Active: v.Active, Provider: v.Provider, Spec: v.Spec, Agent: agent,
			CreatedAt: v.CreatedAt, CreatedBy: v.CreatedBy,
		},
		Text: text,
	}, nil
}

// versionText is all that makes a version as YAML: the same version has the same lines, whatever wrote it.
func versionText(provider string, spec, agent json.RawMessage) (string, error) {
	version := map[string]any{"provider": provider}
	for key, raw := range map[string]json.RawMessage{"spec": spec, "agent": agent} {
		if len(raw) == 0 {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber() // else large numbers change
		var value any
		if err := decoder.Decode(&value); err != nil {
			return "", xerrors.Errorf("decode %s of version: %w", key, err)
		}
		if value != nil {
			version[key] = value
		}
	}
	sorted, err := json.Marshal(version)
	if err != nil {
		return "", xerrors.Errorf("encode version: %w", err)
	}
	text, err := yaml.JSONToYAML(sorted)
	if err != nil {
		return "", xerrors.Errorf("write version as YAML: %w", err)
	}
	return string(text), nil
}

func (s *server) getRollout(ctx context.Context, who auth.Identity, in *templateInput) (sdk.TemplateRollout, error) {
	q := viewsdb.New(s.Store)
	template, err := s.findTemplate(ctx, who, in.Name)
	if err != nil {
		return sdk.TemplateRollout{}, err
	}
	deadline := time.Duration(template.ProgressDeadlineS) * time.Second
	out := sdk.TemplateRollout{
		Template: template.Name, Version: int(template.ActiveVersion), ProgressDeadline: deadline.String(),
		Presets: []sdk.PresetRollout{},
	}
	switch back, err := q.VersionBefore(ctx, template.ID); {
	case err == nil:
		out.Back = int(back.Number)
	case !database.NoRows(err):
		return sdk.TemplateRollout{}, xerrors.Errorf("find version to roll back to: %w", err)
	}
	presets, err := q.RolloutsOf(ctx, template.ID)
	if err != nil {
		return sdk.TemplateRollout{}, xerrors.Errorf("list presets of template: %w", err)
	}
	pools, err := s.poolsOf(ctx, who, presets)
	if err != nil {
		return sdk.TemplateRollout{}, err
	}
	slots, err := q.VersionSlots(ctx, template.ID)
	if err != nil {
		return sdk.TemplateRollout{}, xerrors.Errorf("count workspaces of versions: %w", err)
	}
	versions := map[uuid.UUID][]sdk.VersionSlots{}
	for _, n := range slots {
		versions[n.PresetID] = append(versions[n.PresetID], sdk.VersionSlots{
			Version: int(n.Number), Active: n.Number == template.ActiveVersion,
			Slots: sdk.Slots{
				Ready: int(n.Ready), Outdated: int(n.Outdated), Starting: int(n.Starting), Leaving: int(n.Leaving),
				Failed: int(n.Failed), Claimed: int(n.Claimed),
			},
		})
	}
	for _, p := range presets {
		pool, found := pools[p.ID]
		if !found {
			continue // it was deleted between the two statements
		}
		shown := sdk.PresetRollout{
			Preset: pool.Preset, Pool: pool.Pool, Desired: pool.Desired, Rollout: pool.Rollout, BeganAt: timeOrNil(p.RolloutAt),
			Proven: p.Proven, Failures: pool.Failures, Fault: pool.Fault, Paused: pool.Paused, Versions: versions[p.ID],
		}
		if shown.Versions == nil {
			shown.Versions = []sdk.VersionSlots{}
		}
		if deadline > 0 && !p.Proven && pool.Slots.Outdated > 0 {
			at := p.RolloutAt.Add(deadline)
			shown.DeadlineAt = &at
		}
		out.Presets = append(out.Presets, shown)
	}
	return out, nil
}

// poolsOf is what list-pools shows of presets, without their claims.
func (s *server) poolsOf(
	ctx context.Context, who auth.Identity, presets []viewsdb.RolloutsOfRow,
) (map[uuid.UUID]sdk.Pool, error) {
	ids := lists.Of(presets, func(p viewsdb.RolloutsOfRow) uuid.UUID { return p.ID })
	rows, err := viewsdb.New(s.Store).PoolViews(ctx, viewsdb.PoolViewsParams{
		OrganizationID: who.OrganizationID, Ids: ids, MaxPools: int32(len(ids)),
	})
	if err != nil {
		return nil, xerrors.Errorf("read presets of template: %w", err)
	}
	pools := make(map[uuid.UUID]sdk.Pool, len(rows))
	for _, row := range rows {
		if pools[row.ID], err = poolOf(row, nil); err != nil {
			return nil, err
		}
	}
	return pools, nil
}
