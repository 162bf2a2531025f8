package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	oteltrace "go.opentelemetry.io/otel/trace"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/events"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/states"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/tunnel"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/site"
)

// Claimer hands out prebuilds; *claim.Service is one.
type Claimer interface {
	Claim(ctx context.Context, req claim.Request) (claim.Result, error)
}

// WorkspaceActions are what people do to workspaces; *workspaces.Writer has them.
type WorkspaceActions interface {
	Release(ctx context.Context, a workspaces.Actor, id uuid.UUID) (workspaces.Moved, error)
	Delete(ctx context.Context, a workspaces.Actor, id uuid.UUID, force bool) (workspaces.Moved, error)
	Retry(ctx context.Context, a workspaces.Actor, id uuid.UUID) (workspaces.Moved, error)
	Keep(ctx context.Context, a workspaces.Actor, id uuid.UUID, keep time.Duration) (workspaces.Moved, error)
}

// Providers are those of this replica; *provider.Registry has them.
type Providers interface {
	Get(name string) (provider.Provider, error)
	Read(ctx context.Context) error
	Sites() []string
}

// Options of the API. All are needed but those that say otherwise.
type Options struct {
	Store      *database.Store
	Auth       *auth.Authenticator
	Claims     Claimer
	Passes     Previewer
	Workspaces WorkspaceActions
	Templates  *templates.Service
	Providers  Providers
	Instances  *instance.Service
	States     *states.Service
	StateAlone provider.BeginState // for checks of providers that take states
	Notifier   *alerts.Notifier
	Sizes      Sizes
	Inventory  Inventories
	Forges     *entities.Service
	Runners    Runners // nil: there are no forges
	Events     *events.Hub
	// Webhooks takes what forges send; nil: there are none.
	Webhooks Webhooks
	// Tunnels lead into workspaces; nil: there are none. Sessions records who is in them.
	Tunnels  *tunnel.Service
	Sessions *auth.Recorder
	// AccessURL is where this or any other replica is reached, without a slash at the end.
	AccessURL string
	// PortDomain is where browsers reach ports of workspaces; zero: nowhere.
	PortDomain PortDomain
	// Installation is whose workspaces the providers have.
	Installation uuid.UUID
	Hints        *hints.Hints
	// StaleAfter is how old the last pass over all templates may be before people are told; a minute where 0.
	StaleAfter time.Duration
	// Ready says why the replica must not be sent requests; nothing where it may.
	Ready func(ctx context.Context) []string
	// Metrics serves /metrics, to who has MetricsToken as a bearer token; to everybody where that is empty.
	Metrics      http.Handler
	MetricsToken string
	// Site is the web UI; nil: the binary was built without.
	Site  *site.Site
	Clock quartz.Clock
	Log   slog.Logger
	// LogRequests writes a line at debug for each request that went well. The logger would make one only to drop it, which is
	// some of what a claim costs.
	LogRequests bool
	Version     string
	Tracer      oteltrace.Tracer // nil: no traces
}

type server struct {
	Options
	api         huma.API
	presetNames presetNames
	watch       *auth.Watch
	logs        tally           // outputs of workspaces that are read
	uploads     map[string]bool // routes whose bodies have any size, by method and pattern
	visits      visits
	watched     tally // processes of workspaces whose end is watched
	looks       looks
	turns       *provider.TurnsOf[uuid.UUID] // of users, to have a workspace looked for

	openings     *openings
	openVersions remembered[uuid.UUID, bool] // whether a version opens its workspaces to others
}

// New makes the handler of everything that the server serves.
func New(o Options) http.Handler {
	o.StaleAfter = cmp.Or(o.StaleAfter, time.Minute)
	s := &server{Options: o, watch: auth.NewWatch(o.Store, o.Clock), turns: lookTurns(), uploads: map[string]bool{}}
	s.Log = s.Log.Named("api")
	s.openings = newOpenings(s.Store, s.Clock, s.Log)
	router := chi.NewRouter()
	router.Use(s.requestID, s.accessLog, s.traced, s.recoverPanics, securityHeaders, s.limitBody(router), jsonByDefault)
	router.NotFound(s.notFound)
	router.MethodNotAllowed(methodNotAllowed(router))
	s.api = humachi.New(router, config(o.Version))
	s.register()
	s.serveHealth(router)
	s.serveWebhooks(router)
	s.serveRelay(router)
	s.servePages(router)
	return s.byHost(router)
}

// Document is the OpenAPI document of an API of that version.
func Document(version string) ([]byte, error) {
	s := &server{uploads: map[string]bool{}}
	s.api = humachi.New(chi.NewRouter(), config(version))
	s.register()
	return s.document()
}

func (s *server) document() ([]byte, error) {
	b, err := json.Marshal(s.api.OpenAPI())
	if err != nil {
		return nil, xerrors.Errorf("encode OpenAPI document: %w", err)
	}
	return b, nil
}

// register declares every operation there is.
func (s *server) register() {
	s.registerPresets()
	s.registerPools()
	s.registerSizing()
	s.registerHistory()
	s.registerClaims()
	s.registerClaimList()
	s.registerWorkspaces()
	s.registerLogs()
	s.registerExec()
	s.registerProcesses()
	s.registerPorts()
	s.registerHTTPPorts()
	s.registerPortLinks()
	s.registerSSH()
	s.registerFiles()
	s.registerTemplates()
	s.registerVersions()
	s.registerApply()
	s.registerModules()
	s.registerPlans()
	s.registerReplicas()
	s.registerProviders()
	s.registerInventory()
	s.registerForges()
	s.registerForgeJobs()
	s.registerRunners()
	s.registerAudit()
	s.registerIdentity()
	s.registerSession()
	s.registerTokens()
	s.registerPauses()
	s.registerQuotas()
	s.registerSigningKeys()
	s.registerNotifications()
	s.registerInstance()
	s.registerInstanceAgent()
	s.registerInstanceSystem()
	s.registerInstanceRunner()
	s.registerInstanceGARM()
	s.registerInstanceTunnel()
	s.registerTerraformState()
	s.registerEvents()
}

func config(version string) huma.Config {
	c := huma.DefaultConfig("Prewarm", version)
	c.Info.Description = "Pools of prebuilt workspaces, kept warm. Every request carries a bearer token; " +
		"errors are problem documents of RFC 9457."
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "As made by `prewarm token create`."},
		"session": {
			Type: "apiKey", In: "cookie", Name: sessionCookie, Description: "As set by `POST /session`, for browsers.",
		},
		"instance": {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "As a workspace is given to call back with."},
		"run":      {Type: "http", Scheme: "basic", Description: "The id of a workspace, and the token of one run of Terraform for it."},
	}
	// The document and its page are served by pages.go; no $schema links in answers.
	c.OpenAPIPath, c.DocsPath, c.SchemasPath, c.CreateHooks = "", "", "", nil
	c.Transformers = append(c.Transformers, withoutValues)
	return c
}

const (
	// requestTimeout bounds what is not a long poll or a stream.
	requestTimeout = 30 * time.Second
	maxBody        = 1 << 20 // bytes
)
