package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (s *server) registerForgeHooks() {
	register(s, operation{
		id: "check-forge", method: http.MethodPost, path: "/forges/{forge}/check", action: auth.ActWriteForges, tag: "forges",
		summary:     "Ask a forge for what Prewarm needs of it",
		description: "Lists runners, and looks at the webhook and its deliveries. Nothing is changed there.",
	}, s.checkForge)
	register(s, operation{
		id: "get-forge-hook", method: http.MethodGet, path: "/forges/{forge}/webhook", action: auth.ActReadForges,
		tag: "forges", summary: "Show the webhook that Prewarm installed, as the forge has it",
	}, s.getForgeHook)
	register(s, operation{
		id: "install-forge-hook", method: http.MethodPost, path: "/forges/{forge}/webhook", action: auth.ActWriteForges,
		tag: "forges", summary: "Install the webhook at the forge, or bring it up to date",
	}, s.installForgeHook)
	register(s, operation{
		id: "ping-forge-hook", method: http.MethodPost, path: "/forges/{forge}/webhook/ping", action: auth.ActWriteForges,
		tag: "forges", status: http.StatusNoContent, summary: "Have the forge send a delivery, to see whether it arrives",
	}, s.pingForgeHook)
	register(s, operation{
		id: "remove-forge-hook", method: http.MethodDelete, path: "/forges/{forge}/webhook", action: auth.ActWriteForges,
		tag: "forges", status: http.StatusNoContent, summary: "Remove the webhook at the forge",
	}, s.removeForgeHook)
}

// client is an entity with the client of its forge. Calls of it are made outside of transactions, and end with the request.
func (s *server) client(ctx context.Context, who auth.Identity, name string) (entities.Entity, forge.Forge, error) {
	if _, err := s.forgeNamed(ctx, who, name); err != nil {
		return entities.Entity{}, nil, err
	}
	entity, err := s.Forges.Find(ctx, who, name)
	if err != nil {
		return entity, nil, err
	}
	client, err := s.Forges.Directory.Forge(ctx, entity.ID)
	if err != nil {
		return entity, nil, auth.Refuse(auth.ErrConflict, "%v", err)
	}
	return entity, client, nil
}

const pinging = "ping webhook"

// forgeProblem is what a person is told of an error of a forge.
func (s *server) forgeProblem(e entities.Entity, doing string, err error) error {
	var limited *forge.RateLimited
	switch {
	case err == nil:
		return nil
	case errors.As(err, &limited):
		wait := max(time.Second, s.Clock.Until(limited.Until, "api", "forge"))
		return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable("forge "+e.Name+": "+limited.Error()),
			http.Header{"Retry-After": {strconv.Itoa(int(wait.Seconds()))}})
	case errors.Is(err, forge.ErrUnsupported) && doing == pinging && e.HookID != 0: // it is there, so only that is missing
		return auth.Refuse(auth.ErrConflict, "forge %s: %s: the forge has no API for that; what is queued there next is a delivery as "+
			"good", e.Name, doing)
	case errors.Is(err, forge.ErrUnsupported):
		return auth.Refuse(auth.ErrConflict, "the forge has no API for webhooks of this %s: add one there by hand, with the URL %s, "+
			"content type application/json, the event workflow_job, and the entity's secret (`prewarm forge rotate-secret %s` "+
			"makes one and shows it once)", e.Scope, s.webhookURL(e.Name), e.Name)
	case errors.Is(err, forge.ErrNotFound):
		return auth.Refuse(auth.ErrNotFound, "forge %s: %s: the forge has no such thing, or the credential may not see it", e.Name, doing)
	case errors.Is(err, forge.ErrRefused):
		return badGateway(e.Name, fmt.Errorf("%s: %w; %s", doing, err, permission(e)))
	}
	return badGateway(e.Name, fmt.Errorf("%s: %w", doing, err))
}

// permission says what a credential needs.
func permission(e entities.Entity) string {
	if e.KindName == "gitea" && e.Scope == forge.Enterprise {
		return "its token needs the scopes write:admin, read:repository and read:user, of an administrator"
	}
	if e.KindName == "gitea" {
		return "its token needs the scopes write:" + string(e.Scope) + " and read:user, of an owner or admin"
	}
	switch e.Scope {
	case forge.Repository:
		return "an App needs Administration and Repository webhooks (write), Actions (read); a classic token the scope repo"
	case forge.Organization:
		return "an App needs Self-hosted runners and Organization webhooks (write), Actions (read); a classic token the scopes " +
			"admin:org and admin:org_hook"
	default:
		return "a classic token needs the scope manage_runners:enterprise"
	}
}

// hooked is client for an entity with a webhook of ours.
func (s *server) hooked(ctx context.Context, who auth.Identity, name string) (entities.Entity, forge.Forge, error) {
	entity, client, err := s.client(ctx, who, name)
	if err == nil && entity.HookID == 0 {
		err = auth.Refuse(auth.ErrConflict, "Prewarm installed no webhook for %s: `prewarm forge webhook install %s` does", name, name)
	}
	return entity, client, err
}

func hookOf(h forge.Hook) sdk.ForgeHook {
	if h.Events == nil {
		h.Events = []string{}
	}
	return sdk.ForgeHook{ID: h.ID, URL: h.URL, Events: h.Events, Active: h.Active, LastStatus: h.LastStatus}
}

func (s *server) getForgeHook(ctx context.Context, who auth.Identity, in *forgeInput) (*body[sdk.ForgeHook], error) {
	entity, client, err := s.hooked(ctx, who, in.Forge)
	if err != nil {
		return nil, err
	}
	hook, err := client.Hook(ctx, entity.HookID)
	if err != nil {
		return nil, s.forgeProblem(entity, "show webhook", err)
	}
	return bodyOf(hookOf(hook)), nil
}

func (s *server) installForgeHook(ctx context.Context, who auth.Identity, in *forgeInput) (*body[sdk.ForgeHook], error) {
	hook, err := s.installHook(ctx, who, in.Forge)
	if err != nil {
		return nil, err
	}
	return bodyOf(hookOf(hook)), nil
}

func (s *server) installHook(ctx context.Context, who auth.Identity, name string) (forge.Hook, error) {
	entity, client, err := s.client(ctx, who, name)
	if err != nil {
		return forge.Hook{}, err
	}
	if len(entity.Secrets) == 0 {
		return forge.Hook{}, auth.Refuse(auth.ErrConflict, "%v", entity.Err)
	}
	hook, err := client.InstallHook(ctx, s.webhookURL(entity.Name), entity.Secrets[0])
	if err != nil {
		return forge.Hook{}, s.forgeProblem(entity, "install webhook", err)
	}
	return hook, s.Forges.SetHook(ctx, who, name, "forge.install-hook", hook.ID)
}

func (s *server) pingForgeHook(ctx context.Context, who auth.Identity, in *forgeInput) (*struct{}, error) {
	entity, client, err := s.hooked(ctx, who, in.Forge)
	if err != nil {
		return nil, err
	}
	if err := client.PingHook(ctx, entity.HookID); err != nil {
		return nil, s.forgeProblem(entity, pinging, err)
	}
	return nil, s.Forges.Record(ctx, who, "forge.ping-hook", entity)
}

func (s *server) removeForgeHook(ctx context.Context, who auth.Identity, in *forgeInput) (*struct{}, error) {
	entity, client, err := s.hooked(ctx, who, in.Forge)
	if err != nil {
		return nil, err
	}
	if err := client.RemoveHook(ctx, entity.HookID); err != nil && !errors.Is(err, forge.ErrNotFound) {
		return nil, s.forgeProblem(entity, "remove webhook", err)
	}
	return nil, s.Forges.SetHook(ctx, who, in.Forge, "forge.remove-hook", 0)
}

// checkForge asks for one thing after the other, and goes on after what fails.
func (s *server) checkForge(ctx context.Context, who auth.Identity, in *forgeInput) (*body[sdk.ForgeCheck], error) {
	check := sdk.ForgeCheck{OK: true}
	add := func(name, detail string, entity entities.Entity, err error) {
		step := sdk.ForgeCheckStep{Name: name, Outcome: "passed", Detail: detail}
		switch {
		case errors.Is(err, forge.ErrUnsupported):
			step.Outcome, step.Detail = "not_offered", "the forge has no API for it at this scope"
		case err != nil:
			step.Outcome, check.OK = "failed", false
			step.Detail = s.forgeProblem(entity, name, err).Error()
		}
		check.Steps = append(check.Steps, step)
	}
	entity, client, err := s.client(ctx, who, in.Forge)
	var refusal *auth.Refusal
	if errors.As(err, &refusal) && errors.Is(refusal.Kind, auth.ErrConflict) {
		check.OK = false
		check.Steps = []sdk.ForgeCheckStep{{Name: "credential", Outcome: "failed", Detail: refusal.Text}}
		return bodyOf(check), nil
	}
	if err != nil {
		return nil, err
	}
	runners, err := client.Runners(ctx)
	add("runners", fmt.Sprintf("%d are registered", len(runners)), entity, err)
	if entity.HookID == 0 {
		check.Steps = append(check.Steps, sdk.ForgeCheckStep{
			Name: "webhook", Outcome: "not_offered", Detail: "none that Prewarm installed; one made by hand is not looked at",
		})
	} else {
		hook, err := client.Hook(ctx, entity.HookID)
		add("webhook", fmt.Sprintf("calls %s, active: %t, last delivery: %s", hook.URL, hook.Active, hook.LastStatus), entity, err)
		sent, err := client.Deliveries(ctx, entity.HookID, s.Clock.Now("api", "forge").Add(-time.Hour))
		add("deliveries", fmt.Sprintf("%d in the last hour", len(sent)), entity, err)
	}
	if rate := client.Rate(); rate.Limit > 0 {
		add("rate", fmt.Sprintf("%d of %d requests are left", rate.Remaining, rate.Limit), entity, nil)
	}
	return bodyOf(check), s.Forges.Record(ctx, who, "forge.check", entity)
}
