package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (s *server) registerForgeHooks() {
	answer(s, operation{
		id: "check-forge", method: http.MethodPost, path: "/forges/{forge}/check", action: auth.ActWriteForges, tag: "forges",
		summary:     "Ask a forge for what Prewarm needs from it",
		description: "Lists runners, and looks at the webhook and its deliveries. Nothing is changed there.",
	}, s.checkForge)
	answer(s, operation{
		id: "get-forge-hook", method: http.MethodGet, path: "/forges/{forge}/webhook", action: auth.ActReadForges,
		tag: "forges", summary: "Show the webhook as the forge has it, Prewarm's or a person's",
	}, s.getForgeHook)
	answer(s, operation{
		id: "install-forge-hook", method: http.MethodPost, path: "/forges/{forge}/webhook", action: auth.ActWriteForges,
		tag: "forges", summary: "Install the webhook at the forge, bring it up to date, or take over a person's",
		description: "409 where there is one for the same URL that Prewarm did not install. With take_over it is Prewarm's " +
			"afterwards, with the entity's secret and the right event, and no second is left.",
	}, s.installForgeHook)
	act(s, operation{
		id: "ping-forge-hook", method: http.MethodPost, path: "/forges/{forge}/webhook/ping", action: auth.ActWriteForges,
		tag: "forges", summary: "Have the forge send a delivery, to see whether it arrives",
	}, s.pingForgeHook)
	act(s, operation{
		id: "remove-forge-hook", method: http.MethodDelete, path: "/forges/{forge}/webhook", action: auth.ActWriteForges,
		tag: "forges", summary: "Remove the webhook at the forge",
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
		return auth.Refuse(auth.ErrConflict, "the forge has no API for webhooks of this %s: add one there by hand. It has the URL %s, "+
			"content type application/json, the event workflow_job, and the entity's secret. `prewarm forge rotate-secret %s` "+
			"makes one and shows it once", e.Scope, s.webhookURL(e.Name), e.Name)
	case errors.Is(err, forge.ErrNotFound):
		return auth.Refuse(auth.ErrNotFound, "forge %s: %s: not found at the forge, or the credential may not see it", e.Name, doing)
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
		err = noHook(name)
	}
	return entity, client, err
}

func hookOf(h forge.Hook) sdk.ForgeHook {
	if h.Events == nil {
		h.Events = []string{}
	}
	return sdk.ForgeHook{ID: h.ID, URL: h.URL, Events: h.Events, Active: h.Active, LastStatus: h.LastStatus}
}

// getForgeHook shows the webhook that is ours, else one that a person made, and the others that call the same address.
func (s *server) getForgeHook(ctx context.Context, who auth.Identity, in *forgeInput) (sdk.ForgeHook, error) {
	entity, client, err := s.client(ctx, who, in.Forge)
	if err != nil {
		return sdk.ForgeHook{}, err
	}
	var hook forge.Hook
	if entity.HookID != 0 {
		if hook, err = client.Hook(ctx, entity.HookID); err != nil {
			return sdk.ForgeHook{}, s.forgeProblem(entity, "show webhook", err)
		}
	}
	all, err := client.Hooks(ctx, s.webhookURL(entity.Name))
	if err != nil && !errors.Is(err, forge.ErrUnsupported) {
		return sdk.ForgeHook{}, s.forgeProblem(entity, "list webhooks", err)
	}
	others := slices.DeleteFunc(all, func(h forge.Hook) bool { return h.ID == entity.HookID })
	if entity.HookID == 0 {
		if len(others) == 0 {
			return sdk.ForgeHook{}, noHook(in.Forge)
		}
		hook, others = others[0], others[1:]
	}
	shown := hookOf(hook)
	shown.Ours = entity.HookID != 0
	for _, h := range others {
		shown.Others = append(shown.Others, hookOf(h))
	}
	return shown, nil
}

func noHook(name string) error {
	return auth.Refuse(auth.ErrConflict, "Prewarm installed no webhook for %s: `prewarm forge webhook install %s` does", name, name)
}

type installHookInput struct {
	Forge    string `path:"forge" doc:"Name of the entity"`
	TakeOver bool   `query:"take_over" doc:"Make webhooks that a person made for the same URL ours: one is kept, with another secret, and no second"`
}

func (s *server) installForgeHook(ctx context.Context, who auth.Identity, in *installHookInput) (sdk.ForgeHook, error) {
	hook, err := s.installHook(ctx, who, in.Forge, in.TakeOver)
	if err != nil {
		return sdk.ForgeHook{}, err
	}
	shown := hookOf(hook)
	shown.Ours = true
	return shown, nil
}

// installHook makes the webhook, or brings ours up to date. One that a person made for the same address is theirs until somebody
// says otherwise: with ours next to it, every event would arrive twice.
func (s *server) installHook(ctx context.Context, who auth.Identity, name string, takeOver bool) (forge.Hook, error) {
	entity, client, err := s.client(ctx, who, name)
	if err != nil {
		return forge.Hook{}, err
	}
	if len(entity.Secrets) == 0 {
		return forge.Hook{}, auth.Refuse(auth.ErrConflict, "%v", entity.Err)
	}
	url := s.webhookURL(entity.Name)
	there, err := client.Hooks(ctx, url)
	if err != nil {
		return forge.Hook{}, s.forgeProblem(entity, "list webhooks", err)
	}
	others := slices.DeleteFunc(there, func(h forge.Hook) bool { return h.ID == entity.HookID })
	if len(others) > 0 && !takeOver {
		return forge.Hook{}, auth.Refuse(auth.ErrConflict, "webhook %d of %s calls %s too, and Prewarm did not install it. Remove it "+
			"there, or make it Prewarm's with `prewarm forge webhook install %s --take-over`", others[0].ID, name, url, name)
	}
	id, action := entity.HookID, "forge.install-hook"
	if len(others) > 0 {
		action = "forge.take-over-hook"
		if id == 0 {
			id = others[0].ID
		}
	}
	hook, err := client.InstallHook(ctx, url, entity.Secrets[0], id)
	if err != nil {
		return forge.Hook{}, s.forgeProblem(entity, "install webhook", err)
	}
	// It is known as ours before the others go: what then remains of them can be taken over again.
	if err := s.Forges.SetHook(ctx, who, name, action, hook.ID); err != nil {
		return forge.Hook{}, err
	}
	for _, old := range append(others, forge.Hook{ID: id}) {
		if old.ID == 0 || old.ID == hook.ID {
			continue
		}
		if err := client.RemoveHook(ctx, old.ID); err != nil && !errors.Is(err, forge.ErrNotFound) {
			return forge.Hook{}, s.forgeProblem(entity, fmt.Sprintf("remove webhook %d, in whose place there is %d", old.ID, hook.ID), err)
		}
	}
	return hook, nil
}

func (s *server) pingForgeHook(ctx context.Context, who auth.Identity, in *forgeInput) error {
	entity, client, err := s.hooked(ctx, who, in.Forge)
	if err != nil {
		return err
	}
	if err := client.PingHook(ctx, entity.HookID); err != nil {
		return s.forgeProblem(entity, pinging, err)
	}
	return s.Forges.Record(ctx, who, "forge.ping-hook", entity)
}

func (s *server) removeForgeHook(ctx context.Context, who auth.Identity, in *forgeInput) error {
	entity, client, err := s.hooked(ctx, who, in.Forge)
	if err != nil {
		return err
	}
	if err := client.RemoveHook(ctx, entity.HookID); err != nil && !errors.Is(err, forge.ErrNotFound) {
		return s.forgeProblem(entity, "remove webhook", err)
	}
	return s.Forges.SetHook(ctx, who, in.Forge, "forge.remove-hook", 0)
}

// checkForge asks for one thing after the other, and goes on after what fails.
func (s *server) checkForge(ctx context.Context, who auth.Identity, in *forgeInput) (sdk.ForgeCheck, error) {
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
	if refusal, is := errors.AsType[*auth.Refusal](err); is && errors.Is(refusal.Kind, auth.ErrConflict) {
		check.OK = false
		check.Steps = []sdk.ForgeCheckStep{{Name: "credential", Outcome: "failed", Detail: refusal.Text}}
		return check, nil
	}
	if err != nil {
		return sdk.ForgeCheck{}, err
	}
	runners, err := client.Runners(ctx)
	add("runners", fmt.Sprintf("%d are registered", len(runners)), entity, err)
	if entity.HookID == 0 {
		step := sdk.ForgeCheckStep{Name: "webhook", Outcome: "not_offered", Detail: "there is none that Prewarm installed"}
		if there, err := client.Hooks(ctx, s.webhookURL(entity.Name)); err == nil && len(there) > 0 {
			step.Outcome = "passed"
			step.Detail = fmt.Sprintf("webhook %d was made by a person, active: %t, last delivery: %s; `prewarm forge webhook install %s "+
				"--take-over` makes it Prewarm's", there[0].ID, there[0].Active, there[0].LastStatus, entity.Name)
		}
		check.Steps = append(check.Steps, step)
	} else {
		hook, err := client.Hook(ctx, entity.HookID)
		add("webhook", fmt.Sprintf("calls %s, active: %t, last delivery: %s", hook.URL, hook.Active, hook.LastStatus), entity, err)
		sent, err := client.Deliveries(ctx, entity.HookID, s.Clock.Now("api", "forge").Add(-time.Hour))
		add("deliveries", fmt.Sprintf("%d in the last hour", len(sent)), entity, err)
	}
	if rate := client.Rate(); rate.Limit > 0 {
		add("rate", fmt.Sprintf("%d of %d requests are left", rate.Remaining, rate.Limit), entity, nil)
	}
	return check, s.Forges.Record(ctx, who, "forge.check", entity)
}
