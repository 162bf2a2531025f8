package templates

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// providerState is what a provider's row says.
type providerState struct {
	Kind            string          `json:"kind"`
	Config          json.RawMessage `json:"config"`
	Maximum         int32           `json:"maximum" file:"maximum"`
	CreatesInFlight int32           `json:"creates_in_flight" file:"creates_in_flight"`
	Chunk           int32           `json:"chunk" file:"chunk"`
	CreateEvery     string          `json:"create_every,omitempty" file:"create_every"`
	CreateBurst     int32           `json:"create_burst" file:"create_burst"`
	InventoryEvery  string          `json:"inventory_every" file:"inventory_every"`
	Breaker         Breaker         `json:"breaker" file:"breaker"`
	DataPlane       Allowed         `json:"data_plane,omitzero" file:"data_plane"`
	Deleted         bool            `json:"deleted,omitempty" file:"deleted"`
}

// trusted are the kinds of which a provider is confirmed from the start: orphans are deleted there at once. Elsewhere
// somebody first looks at what would be deleted.
var trusted = []string{"local", "sim", "docker"}

func providerStateOf(row database.Provider, config json.RawMessage) providerState {
	s := providerState{
		Kind: row.Kind, Config: config, Maximum: row.Maximum, CreatesInFlight: row.CreatesInFlight, Chunk: row.Chunk,
		CreateBurst: row.CreateBurst, InventoryEvery: ofSeconds(row.InventoryEveryS).String(),
		Breaker:   Breaker{row.BreakerCount, row.BreakerPercent, row.BreakerErrors, row.BreakerClean},
		DataPlane: Allowed{row.EnterAllowedAt != nil, row.PublicPortsAllowedAt != nil}, Deleted: row.DeletedAt != nil,
	}
	if row.CreateEveryS != nil {
		s.CreateEvery = ofSeconds(*row.CreateEveryS).String()
	}
	return s
}

func ofSeconds(s float64) time.Duration { return time.Duration(math.Round(s*1000)) * time.Millisecond }

func (a *applying) providers(ctx context.Context, providers []Provider) error {
	names := lists.Of(providers, func(p Provider) string { return p.Name })
	for _, t := range a.doc.Templates { // also those that templates use, so that none is deleted meanwhile
		names = append(names, t.Provider)
	}
	rows, err := templatesdb.New(a.db).LockProviders(ctx, names)
	if err != nil {
		return xerrors.Errorf("lock providers: %w", err)
	}
	for _, p := range providers {
		if err := a.provider(ctx, p, providerNamed(rows, p.Name)); err != nil {
			return xerrors.Errorf("apply provider %s: %w", p.Name, err)
		}
		rows = slices.DeleteFunc(rows, func(r database.Provider) bool { return r.Name == p.Name })
	}
	for _, t := range a.doc.Templates {
		if err := deletedProvider(rows, t.Provider); err != nil {
			return xerrors.Errorf("apply template %s: %w", t.Name, err)
		}
	}
	return nil
}

func providerNamed(rows []database.Provider, name string) *database.Provider {
	return find(rows, func(r *database.Provider) bool { return r.Name == name })
}

// providerChange is what a file would change in a provider. Action is empty where that is nothing.
type providerChange struct {
	sdk.Change
	before any // nil: there is none
	after  providerState
}

// changeOf compares what a file says of a provider with its row, which is nil where there is none.
func changeOf(doc *Document, p Provider, row *database.Provider) (providerChange, error) {
	config, err := canonical(p.Config)
	if err != nil {
		return providerChange{}, err
	}
	c := providerChange{
		Change: sdk.Change{Kind: "provider", Name: p.Name, Action: "create"},
		after: providerState{
			Kind: p.Kind, Config: config, Maximum: p.Maximum, CreatesInFlight: p.CreatesInFlight, Chunk: p.Chunk,
			CreateBurst: p.CreateBurst, InventoryEvery: p.InventoryEvery.String(), Breaker: p.Breaker,
			DataPlane: p.DataPlane,
		},
	}
	if p.CreateEvery > 0 {
		c.after.CreateEvery = p.CreateEvery.String()
	}
	if row == nil {
		return c, nil
	}
	if row.Kind != p.Kind {
		return c, kindChanged(doc, p, row.Kind)
	}
	stored, err := canonical(row.Config)
	if err != nil {
		return c, err
	}
	if row.EmptiedAt != nil { // nothing is left of it but its name and its kind
		return c, nil
	}
	old, after := providerStateOf(*row, stored), c.after
	c.before = old
	c.Fields = append(jsonFields("config", old.Config, after.Config), differences(old, after)...)
	c.Action = "update"
	if len(c.Fields) == 0 {
		c.Action = ""
	}
	return c, nil
}

// mayChange refuses a provider that the file changes to whoever may not (provider.apply): its configuration says which
// folders, engines and executables the server works with.
func mayChange(by auth.Identity, c providerChange) error {
	if c.Action == "" || by.Part(auth.ActApplyProvider) == auth.Any {
		return nil
	}
	what := "there is no such provider yet"
	if c.Action == "update" {
		names := make([]string, len(c.Fields))
		for i, f := range c.Fields {
			names[i], _, _ = strings.Cut(f, ": ") // without the values, which may be secret
		}
		what = "this file would change " + strings.Join(names, ", ")
	}
	return auth.Refuse(auth.ErrForbidden, "apply provider %s: %s, and only an owner may create or change providers (provider.apply). "+
		"Leave it out of the file, or let an owner apply it first", c.Name, what)
}

// mayApply refuses a file before anything of it is tried out, such as the executable that a provider of it names. Others
// may change the providers meanwhile: what is written is asked for again in the transaction.
func mayApply(by auth.Identity, doc *Document, existing []database.Provider) error {
	for _, p := range doc.Providers {
		row := providerNamed(existing, p.Name)
		if row != nil {
			p = p.ofMachines(row.Reserves) // what it is by this file is not known before it was made
		}
		c, err := changeOf(doc, p, row)
		if err != nil {
			c.Change = sdk.Change{Name: p.Name, Action: "update", Fields: []string{"its kind or its config"}}
		}
		if err := mayChange(by, c); err != nil {
			return err
		}
	}
	return nil
}

func (a *applying) provider(ctx context.Context, p Provider, row *database.Provider) error {
	c, err := changeOf(a.doc, p, row)
	if err != nil || c.Action == "" {
		return err
	}
	if err := mayChange(a.by, c); err != nil {
		return err
	}
	var createEvery *float64
	if p.CreateEvery > 0 {
		s := p.CreateEvery.Seconds()
		createEvery = &s
	}
	err = templatesdb.New(a.db).UpsertProvider(ctx, templatesdb.UpsertProviderParams{
		Name: p.Name, Kind: p.Kind, Config: c.after.Config, Maximum: p.Maximum, CreatesInFlight: p.CreatesInFlight, Chunk: p.Chunk,
		CreateEveryS: createEvery, CreateBurst: p.CreateBurst, InventoryEveryS: p.InventoryEvery.Seconds(),
		BreakerCount: p.Breaker.Count, BreakerPercent: p.Breaker.Percent, BreakerErrors: p.Breaker.Errors,
		BreakerClean: p.Breaker.Clean, IsConfirmed: slices.Contains(trusted, p.Kind),
		Reserves: p.Reserves, Enter: p.DataPlane.Enter, PublicPorts: p.DataPlane.PublicPorts,
	})
	if err != nil {
		return xerrors.Errorf("write provider: %w", err)
	}
	if row != nil {
		affected, err := viewsdb.New(a.db).TemplatesInScope(ctx, viewsdb.TemplatesInScopeParams{
			Scope: database.PauseScopeProvider, Target: p.Name,
		})
		if err != nil {
			return xerrors.Errorf("find templates of provider: %w", err)
		}
		for _, id := range affected {
			a.affected[id] = true
		}
	}
	return a.changed(ctx, c.Change, p.Name, c.before, c.after)
}
