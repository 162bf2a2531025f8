package api

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/conformance"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	// checkDeadline is how long one call, or becoming ready, may take in a check, and checkSettle how long a cloud may
	// take to show what it did.
	checkDeadline = 20 * time.Minute
	checkSettle   = 2 * time.Minute
)

func (s *server) registerProviders() {
	answer(s, operation{
		id: "list-providers", method: http.MethodGet, path: "/providers", action: auth.ActReadProviders, tag: "providers",
		summary: "List providers, and whether they work on this replica",
	}, s.listProviders)
	answer(s, operation{
		id: "list-machines", method: http.MethodGet, path: "/providers/{provider}/machines", action: auth.ActReadProviders,
		tag: "providers", summary: "List a provider's machines, where they exist beforehand",
		description: "As they were listed last, each minute: which are unused, whose the others are, and what is wrong with " +
			"them. Empty for a provider that makes what it is asked for.",
	}, s.listMachines)
	answer(s, operation{
		id: "delete-provider", method: http.MethodDelete, path: "/providers/{provider}", action: auth.ActDeleteProvider,
		tag: "providers", summary: "Delete a provider",
		description: "Nothing is created there any more, and it is listed until an inventory finds nothing there. Refused with " +
			"409 while templates use it or workspaces live there, which are named. By force pools on it run empty, and what it does not " +
			"delete at once is given up. What is claimed stays until it is released. What was left there is in the audit log. " +
			"An apply that declares it takes it back.",
	}, s.deleteProvider)
	register(s, operation{
		id: "check-provider", method: http.MethodPost, path: "/providers/{provider}/check",
		action: auth.ActCheckProvider, tag: "providers", endless: true,
		summary: "Check a provider against the contract that all must keep",
		description: "Makes a few workspaces of a preset one after the other, touches nothing else, and deletes them. " +
			"Each line of the answer is the verdict on one case, as JSON, as soon as there is one.",
	}, s.checkProviderContract)
}

func (s *server) listProviders(ctx context.Context, _ auth.Identity, _ *none) ([]sdk.Provider, error) {
	q := viewsdb.New(s.Store)
	rows, err := q.Providers(ctx)
	if err != nil {
		return nil, xerrors.Errorf("list providers: %w", err)
	}
	stand, err := q.Inventories(ctx)
	if err != nil {
		return nil, xerrors.Errorf("list inventories: %w", err)
	}
	use, err := q.ProviderUse(ctx)
	if err != nil {
		return nil, xerrors.Errorf("count workspaces of providers: %w", err)
	}
	list := make([]sdk.Provider, len(rows))
	for i, row := range rows {
		list[i] = sdk.Provider{
			Name: row.Name, Kind: row.Kind, Can: []string{}, Confirmed: row.ConfirmedAt != nil, Reserves: row.Reserves, DeletedAt: row.DeletedAt,
			Limits: limitsOf(row), Sites: []sdk.SiteInventory{},
		}
		if row.EnterAllowedAt != nil {
			list[i].Allows = append(list[i].Allows, "enter")
		}
		if row.PublicPortsAllowedAt != nil {
			list[i].Allows = append(list[i].Allows, "public_ports")
		}
		for _, inv := range stand {
			if inv.Provider != row.Name {
				continue
			}
			if inv.OpenedAt != nil {
				list[i].Breaker = breakerOf(inv)
			}
			list[i].Sites = append(list[i].Sites, sdk.SiteInventory{Site: inv.Site, Breaker: breakerOf(inv), Last: lastOf(inv)})
		}
		for _, u := range use {
			if u.Name == row.Name {
				list[i].Claimed, list[i].Unclaimed, list[i].Creating = int(u.Claimed), int(u.Unclaimed), int(u.Creating)
			}
		}
		p, err := s.Providers.Get(row.Name)
		if err != nil {
			list[i].Error = err.Error()
			continue
		}
		for _, ability := range []struct {
			name string
			has  bool
		}{
			{"exec", can[provider.Execer](p)},
			{"logs", can[provider.Logger](p)},
			{"logs-making", can[provider.MakingLogger](p)},
			{"stop", can[provider.Stopper](p)},
			{"reset", can[provider.Resetter](p)},
			{"agent", can[provider.AgentHost](p)},
			{"handover", can[provider.Handover](p)},
		} {
			if ability.has {
				list[i].Can = append(list[i].Can, ability.name)
			}
		}
		if spoken, ok := provider.As[provider.Spoken](p); ok {
			said := spoken.Spoken()
			list[i].Protocol, list[i].Schema, list[i].NoAgent = said.Version, said.Schema, said.NoAgent
		}
	}
	return list, nil
}

func limitsOf(row database.Provider) sdk.ProviderLimits {
	l := sdk.ProviderLimits{
		Maximum: int(row.Maximum), CreatesInFlight: int(row.CreatesInFlight), Chunk: int(row.Chunk),
		CreateBurst: int(row.CreateBurst), InventoryEvery: seconds(row.InventoryEveryS), BreakerCount: int(row.BreakerCount),
		BreakerPercent: int(row.BreakerPercent), BreakerErrors: int(row.BreakerErrors),
	}
	if row.CreateEveryS != nil {
		l.CreateEvery = seconds(*row.CreateEveryS)
	}
	return l
}

func seconds(s float64) string { return time.Duration(s * float64(time.Second)).String() }

func can[T any](p provider.Provider) bool {
	_, ok := provider.As[T](p)
	return ok
}

type checkInput struct {
	Provider string `path:"provider" doc:"Name of the provider"`
	Body     sdk.CheckRequest
}

func (s *server) checkProviderContract(
	ctx context.Context, who auth.Identity, in *checkInput,
) (*huma.StreamResponse, error) {
	is, err := s.providerNamed(ctx, who, in.Provider)
	if err != nil {
		return nil, err
	}
	if is.DeletedAt != nil {
		return nil, auth.Refuse(auth.ErrConflict, "provider %s is deleted: nothing is made there any more", in.Provider)
	}
	p, err := s.Providers.Get(in.Provider)
	if err != nil {
		return nil, huma.Error503ServiceUnavailable("provider " + in.Provider + " does not work here: " + err.Error())
	}
	subject, err := s.checkSubject(ctx, who, p, in)
	if err != nil {
		return nil, err
	}
	err = s.Store.InTx(ctx, database.TxOptions{Label: "record check"},
		func(ctx context.Context, tx pgx.Tx) error {
			return auth.Record(ctx, tx, auth.Entry{
				ActorID: who.UserID, Action: string(auth.ActCheckProvider), TargetType: "provider", TargetID: in.Provider,
				TargetName: in.Provider, After: map[string]string{"prefix": subject.Prefix}, Source: who.Source,
			})
		})
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		_, w := humachi.Unwrap(hc)
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.WriteHeader(http.StatusOK)
		lines := plainJSON(flusher{w, http.NewResponseController(w)})
		conformance.Check(hc.Context(), subject, func(v conformance.Verdict) {
			_ = lines.Encode(verdictOf(v)) // who no longer listens has ended the check
		})
	}}, nil
}

func verdictOf(v conformance.Verdict) sdk.CheckVerdict {
	verdict := sdk.CheckVerdict{
		Case: v.Case.Name, About: v.Case.About, Outcome: "passed", Nicer: v.Case.Nicer, TookMS: v.Took.Milliseconds(),
	}
	switch {
	case !v.Offered:
		verdict.Outcome = "not_offered"
	case v.Err != nil:
		verdict.Outcome, verdict.Detail = "failed", v.Err.Error()
	}
	return verdict
}

// checkSubject is the provider with what it is to make. All of its names begin with "check-" and something random, by
// which what a killed server left behind can be found.
func (s *server) checkSubject(
	ctx context.Context, who auth.Identity, p provider.Provider, in *checkInput,
) (conformance.Subject, error) {
	p = provider.WithState(p, s.StateAlone)
	subject := conformance.Subject{
		Provider: p, Installation: s.Installation, Prefix: provider.CheckPrefix + strings.ToLower(rand.Text()[:8]) + "-",
		Deadline: checkDeadline, Settle: checkSettle, Ageless: true, Clock: s.Clock,
	}
	rows, err := viewsdb.New(s.Store).PresetViews(ctx, viewsdb.PresetViewsParams{OrganizationID: who.OrganizationID})
	if err != nil {
		return subject, xerrors.Errorf("list presets: %w", err)
	}
	for _, row := range rows {
		if in.Body.Template != "" && (row.Template != in.Body.Template || row.Preset != in.Body.Preset) {
			continue
		}
		if row.Provider != in.Provider {
			if in.Body.Template != "" {
				return subject, auth.Refuse(auth.ErrInvalid, "preset %s/%s is made by provider %s, not by %s", row.Template,
					row.Preset, row.Provider, in.Provider)
			}
			continue
		}
		if err := json.Unmarshal(row.Parameters, &subject.Parameters); err != nil {
			return subject, xerrors.Errorf("read parameters of preset: %w", err)
		}
		subject.Spec, err = s.activeSpec(ctx, row)
		return subject, err
	}
	if in.Body.Template != "" {
		return subject, s.unknownPreset(ctx, who, in.Body.Template, in.Body.Preset)
	}
	// Some need nothing said.
	subject.Spec = json.RawMessage("{}")
	if problems := p.Validate(subject.Spec, nil); len(problems) > 0 {
		return subject, auth.Refuse(auth.ErrInvalid, "nothing says what provider %s should make for the check: apply a "+
			"template with a preset on it first", in.Provider)
	}
	return subject, nil
}

func (s *server) activeSpec(ctx context.Context, preset viewsdb.PresetViewsRow) (json.RawMessage, error) {
	versions, err := viewsdb.New(s.Store).VersionViews(ctx, preset.TemplateID)
	if err != nil {
		return nil, xerrors.Errorf("read versions: %w", err)
	}
	for _, v := range versions {
		if v.Active {
			return v.Spec, nil
		}
	}
	return nil, auth.Refuse(auth.ErrConflict, "template %s has no active version", preset.Template)
}
