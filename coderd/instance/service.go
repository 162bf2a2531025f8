package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/instancedb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// ErrNotAToken: it does not look like an instance token at all; perhaps it is a user's.
var ErrNotAToken = errors.New("this is not an instance token")

// ErrTooMany: the bearer asks more often than an agent has reason to.
var ErrTooMany = errors.New("too many requests with this instance token")

// Refusal is why a token is no good (any more). Its text is for who reads the agent's log.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return r.Text }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Options of a Service. All are needed but those that say otherwise.
type Options struct {
	Store      *database.Store
	Writer     *workspaces.Writer
	Clock      quartz.Clock
	Log        slog.Logger
	Registerer prometheus.Registerer
	// URL is where workspaces reach the API: scheme, host and port. CABundle is PEM, for one whose certificate is of a
	// private authority; may be empty.
	URL      string
	CABundle []byte
	// Binaries is a folder with agents for other platforms than this one's, as prewarm-OS-ARCH; may be empty.
	Binaries string
	Hints    *hints.Hints
	// Keys open signing keys that are sealed, and with SealKeys seal those that are made. Nil: there are no such keys.
	Keys     *seal.Keys
	SealKeys bool
}

// Service answers agents, on one replica. It is safe for concurrent use.
type Service struct {
	Options
	*hub
	keys    *keyring
	limits  *limits
	metrics *metrics
	deaf    bool // whether most agents were silent at the last look; the watcher's own
}

// New returns a Service. Run must run for claims to be delivered at once and for silence to be noticed.
func New(o Options) *Service {
	o.Log = o.Log.Named("instance")
	return &Service{
		Options: o, hub: newHub(o.Store, o.Clock, o.Log, o.Hints), keys: newKeyring(o.Store, sealer{o.Keys, o.SealKeys}, o.Clock),
		limits: newLimits(o.Clock), metrics: newMetrics(o.Registerer),
	}
}

// Instance is a workspace as the bearer of a good token finds it.
type Instance struct {
	Bearer
	instancedb.InstanceOfRow
}

// unheard is the heartbeat time-out, in seconds, of what has no agent: it may report, and falls silent for nobody.
const unheard = 10 * 365 * 24 * 60 * 60

// Callback makes what a create hands to the workspace: from here on only the token of this attempt is good. agent is the
// template's, nil where it has none, and where nothing is installed therefore. It is an
// error (workspaces.ErrLost) if a later attempt has begun.
func (s *Service) Callback(ctx context.Context, job database.Job, agent json.RawMessage) (provider.Callback, error) {
	var config struct {
		HeartbeatTimeoutS int32 `json:"heartbeat_timeout_s"`
	}
	var script []byte
	if agent != nil {
		if err := json.Unmarshal(agent, &config); err != nil {
			return provider.Callback{}, xerrors.Errorf("decode agent: %w", err)
		}
		script = installScript
	} else {
		config.HeartbeatTimeoutS = unheard
	}
	b := Bearer{WorkspaceID: job.WorkspaceID, Incarnation: job.Incarnation, Attempt: job.Attempt}
	token, keyID, err := s.sign(ctx, b)
	if err != nil {
		return provider.Callback{}, err
	}
	n, err := instancedb.New(s.Store).ExpectAgent(ctx, instancedb.ExpectAgentParams{
		WorkspaceID: b.WorkspaceID, Incarnation: b.Incarnation, Attempt: b.Attempt, KeyID: keyID,
		HeartbeatTimeoutS: config.HeartbeatTimeoutS,
	})
	if err != nil {
		return provider.Callback{}, xerrors.Errorf("expect agent: %w", err)
	}
	if n == 0 {
		return provider.Callback{}, xerrors.Errorf("expect agent: %w", workspaces.ErrLost)
	}
	return provider.Callback{
		CallbackURL: s.URL + "/api/v1/instance/status", MetadataURL: s.URL + "/api/v1/instance/metadata", Token: token,
		CABundle: s.CABundle, InstallScript: script,
	}, nil
}

// Authenticate finds the workspace that a token speaks for. The errors are ErrNotAToken, ErrTooMany, *Refusal and those
// of the database.
func (s *Service) Authenticate(ctx context.Context, token string) (Instance, error) {
	b, err := s.verify(ctx, token)
	if err != nil {
		return Instance{}, err
	}
	if !s.limits.allow(b) {
		return Instance{}, ErrTooMany
	}
	return s.look(ctx, b)
}

// look reads the workspace and says whether the token is still good.
func (s *Service) look(ctx context.Context, b Bearer) (Instance, error) {
	row, err := instancedb.New(s.Store).InstanceOf(ctx, instancedb.InstanceOfParams{WorkspaceID: b.WorkspaceID, Incarnation: b.Incarnation})
	if database.NoRows(err) {
		return Instance{}, refuse("the workspace of this token does not exist any more")
	}
	if err != nil {
		return Instance{}, xerrors.Errorf("read instance: %w", err)
	}
	switch {
	case row.Incarnation != b.Incarnation:
		return Instance{}, refuse("the token is of incarnation %d of workspace %s, which is at incarnation %d",
			b.Incarnation, row.Name, row.Incarnation)
	case row.Attempt != b.Attempt:
		return Instance{}, refuse("the token is of attempt %d to create workspace %s, which is at attempt %d",
			b.Attempt, row.Name, row.Attempt)
	}
	switch row.State {
	case database.WorkspaceStateProvisioning, database.WorkspaceStateStarting, database.WorkspaceStateReady,
		database.WorkspaceStateStandby, database.WorkspaceStateClaimed:
		return Instance{b, row}, nil
	default:
		return Instance{}, refuse("workspace %s is %s: its token ended with its work", row.Name, row.State)
	}
}

// Metadata is what the workspace may know of itself, as it is now.
func (s *Service) Metadata(ctx context.Context, i Instance) (viewsdb.InstanceMetadataRow, error) {
	row, err := viewsdb.New(s.Store).InstanceMetadata(ctx, i.WorkspaceID)
	if err != nil {
		return row, xerrors.Errorf("read metadata: %w", err)
	}
	if row.Incarnation != i.Bearer.Incarnation { // used again since the token was looked at
		return viewsdb.InstanceMetadataRow{}, refuse("workspace %s is at incarnation %d", row.Name, row.Incarnation)
	}
	return row, nil
}

// claimOf is the claim that holds the workspace, zero for none.
func (i Instance) claimOf() uuid.UUID {
	if i.State != database.WorkspaceStateClaimed {
		return uuid.Nil
	}
	return i.InstanceOfRow.ClaimID.UUID
}
