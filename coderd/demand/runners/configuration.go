package runners

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/runnersdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	// askFor bounds how long a forge may take to register one runner, and askLease how long nobody else asks for the same.
	askFor   = 20 * time.Second
	askLease = 30 * time.Second
	// lastWords bounds what is still done after the one who asked is gone.
	lastWords = 10 * time.Second
)

// Configuration is how a workspace's runner connects to its forge. It is a secret: it is handed out once, and stored and
// logged nowhere. That which is read as files is stored sealed until they are read: see File.
type Configuration struct {
	Name   string
	Kind   string // github or gitea
	Labels []string
	Group  string
	// CABundle is PEM: the authorities to trust the forge by, beside the usual. Empty: the usual are enough.
	CABundle string
	forge.Registration
}

// Configuration registers the workspace's runner at its forge. Errors are ErrNoRunner; ErrHandedOut; ErrNotNow, where it is to
// be tried again; *LeftAlone, then; *forge.RateLimited and others of the forge, after which it may be tried again too.
func (s *Service) Configuration(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (Configuration, error) {
	row, registration, err := s.handOutOnce(ctx, workspaceID, incarnation, handing{ask: asConfigured})
	if err != nil {
		return Configuration{}, err
	}
	return Configuration{
		Name: row.Name, Kind: string(row.Kind), Labels: row.RunnerLabels, Group: row.RunnerGroup,
		CABundle: row.CaBundle, Registration: registration,
	}, nil
}

// RegistrationToken gets a token by which the workspace's runner registers itself: what it is given instead of a configuration,
// and as that once. The errors are those of Configuration.
func (s *Service) RegistrationToken(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (string, error) {
	_, registration, err := s.handOutOnce(ctx, workspaceID, incarnation, handing{
		ask: func(ctx context.Context, client forge.Forge, _ forge.NewRunner) (forge.Registration, error) {
			return client.RegistrationToken(ctx)
		},
	})
	return registration.Token, err
}

// handing is how a configuration is asked for, and what is kept of it when it goes out.
type handing struct {
	ask  func(ctx context.Context, client forge.Forge, r forge.NewRunner) (forge.Registration, error)
	keep func(row viewsdb.RunnerOfRow, r forge.Registration) (runnersdb.HandOutParams, error) // nil: nothing is
}

func asConfigured(ctx context.Context, client forge.Forge, r forge.NewRunner) (forge.Registration, error) {
	return client.Register(ctx, r)
}

// handOutOnce asks the forge, for the first who wants it.
func (s *Service) handOutOnce(
	ctx context.Context, workspaceID uuid.UUID, incarnation int32, h handing,
) (viewsdb.RunnerOfRow, forge.Registration, error) {
	none := forge.Registration{}
	row, err := s.runnerOf(ctx, workspaceID, incarnation)
	if err != nil {
		return row, none, err
	}
	if alone := waits(row); alone != nil && row.HandedOutAt == nil && row.WorkspaceState == database.WorkspaceStateStarting {
		s.metrics.handed.WithLabelValues("refused").Inc()
		return row, none, alone
	}
	until, err := runnersdb.New(s.Store).BeginHandOut(ctx, runnersdb.BeginHandOutParams{
		WorkspaceID: workspaceID, Incarnation: incarnation, LeaseS: askLease.Seconds(),
	})
	if database.NoRows(err) {
		s.metrics.handed.WithLabelValues("refused").Inc()
		return row, none, s.whyNot(ctx, row)
	}
	if err != nil {
		return row, none, xerrors.Errorf("begin to register runner: %w", err)
	}
	registration, client, err := s.register(ctx, row, h.ask)
	s.heed(ctx, row.EntityID, err)
	if err == nil {
		s.troubles.well(row.EntityID)
	}
	kept := runnersdb.HandOutParams{}
	if err == nil && h.keep != nil {
		kept, err = h.keep(row, registration)
	}
	if err == nil {
		err = s.handOut(ctx, row, client, registration, kept, until)
		if errors.Is(err, ErrNotNow) {
			s.metrics.handed.WithLabelValues("refused").Inc()
			return row, none, err
		}
	}
	if err != nil {
		s.metrics.handed.WithLabelValues("failed").Inc()
		s.endHandOut(ctx, row, until)
		return row, none, err
	}
	s.metrics.handed.WithLabelValues("handed out").Inc()
	s.Log.Info(ctx, "a runner's configuration was handed out", slog.F("workspace", row.WorkspaceName))
	return row, registration, nil
}

// whyNot puts into words that the configuration was not to be had.
func (s *Service) whyNot(ctx context.Context, row viewsdb.RunnerOfRow) error {
	now, err := s.runnerOf(ctx, row.WorkspaceID, row.Incarnation)
	switch {
	case err != nil:
		return err
	case now.HandedOutAt != nil:
		return xerrors.Errorf("it was read at %s: %w", now.HandedOutAt.UTC().Format(time.RFC3339), ErrHandedOut)
	case now.Asking:
		return xerrors.Errorf("it is being made for another request: %w", ErrNotNow)
	default:
		return xerrors.Errorf("workspace %s is %s, and it is read in starting: %w", now.WorkspaceName, now.WorkspaceState, ErrNotNow)
	}
}

// ToBe is what a workspace is to be at its forge, as far as it is no secret, for providers that install the runner by
// themselves: asked before the workspace is made (P5). Nil for one that is to be nothing there.
func (s *Service) ToBe(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (*provider.Runner, error) {
	row, err := s.runnerOf(ctx, workspaceID, incarnation)
	if errors.Is(err, ErrNoRunner) {
		return nil, nil //nolint:nilnil // It is none.
	}
	if err != nil {
		return nil, err
	}
	if alone := waits(row); alone != nil {
		return nil, alone
	}
	bounded, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	client, err := s.Directory.Forge(bounded, row.EntityID)
	if err != nil {
		return nil, ofForge("connect to forge", err)
	}
	tools, err := client.Tools(bounded)
	s.heed(ctx, row.EntityID, err)
	if err != nil {
		return nil, ofForge("list downloads of the runner", err)
	}
	jit, err := client.JIT(bounded)
	s.heed(ctx, row.EntityID, err)
	if err != nil {
		return nil, ofForge("ask for just-in-time configurations", err)
	}
	runner := &provider.Runner{
		Group: row.RunnerGroup, Labels: row.RunnerLabels, URL: client.Page(), JIT: jit, CABundle: []byte(row.CaBundle),
		Tools: lists.Of(tools, func(t forge.Tool) provider.Tool { return provider.Tool(t) }),
	}
	return runner, nil
}

// waits is why the forge of a runner is not to be asked now; nil where it may be.
func waits(row viewsdb.RunnerOfRow) *LeftAlone {
	if !row.LeftAlone || row.RunnersWaitUntil == nil {
		return nil
	}
	return &LeftAlone{Until: *row.RunnersWaitUntil, Cause: row.RunnersError}
}

// runnerOf reads the row of a workspace's runner; ErrNoRunner.
func (s *Service) runnerOf(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (viewsdb.RunnerOfRow, error) {
	row, err := viewsdb.New(s.Store).RunnerOf(ctx, viewsdb.RunnerOfParams{WorkspaceID: workspaceID, Incarnation: incarnation})
	if database.NoRows(err) {
		return row, ErrNoRunner
	}
	if err != nil {
		return row, xerrors.Errorf("read runner: %w", err)
	}
	return row, nil
}

// register asks the forge. What has the name there already is of an asking whose answer was lost: it never got its
// configuration, and gives way, unless it has a job.
func (s *Service) register(
	ctx context.Context, row viewsdb.RunnerOfRow, ask func(context.Context, forge.Forge, forge.NewRunner) (forge.Registration, error),
) (forge.Registration, forge.Forge, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	client, err := s.Directory.Forge(ctx, row.EntityID)
	if err != nil {
		return forge.Registration{}, nil, ofForge("register runner", err)
	}
	wanted := forge.NewRunner{Name: row.Name, Labels: row.RunnerLabels, Group: row.RunnerGroup}
	registration, err := ask(ctx, client, wanted)
	if errors.Is(err, forge.ErrConflict) {
		if err = removeNamed(ctx, client, row.Name); err != nil {
			return forge.Registration{}, nil, ofForge("remove runner of that name", err)
		}
		registration, err = ask(ctx, client, wanted)
	}
	if err != nil {
		return forge.Registration{}, nil, &ForgeError{err} // it says what it did
	}
	return registration, client, nil
}

func removeNamed(ctx context.Context, client forge.Forge, name string) error {
	runner, err := client.RunnerNamed(ctx, name)
	if err == nil && runner.Status == forge.Active {
		return fmt.Errorf("runner %s: %w", name, forge.ErrBusy)
	}
	if err == nil {
		err = client.RemoveRunner(ctx, runner.ID)
	}
	if errors.Is(err, forge.ErrNotFound) {
		return nil
	}
	return err
}

// handOut notes that the configuration goes out now. If it must not any more, what was registered for it is removed.
func (s *Service) handOut(
	ctx context.Context, row viewsdb.RunnerOfRow, client forge.Forge, made forge.Registration,
	kept runnersdb.HandOutParams, until *time.Time,
) error {
	kept.WorkspaceID, kept.Incarnation, kept.AskingUntil = row.WorkspaceID, row.Incarnation, until
	kept.RunnerID = database.OrNull(made.RunnerID)
	if kept.FilesRead == nil {
		kept.FilesRead = []string{}
	}
	n, err := runnersdb.New(s.Store).HandOut(ctx, kept)
	if err != nil {
		return xerrors.Errorf("hand configuration out: %w", err)
	}
	if n == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if err := removeNamed(ctx, client, row.Name); err != nil {
		s.Log.Warn(ctx, "unregister what was registered too late", slog.F("workspace", row.WorkspaceName), slog.Error(err))
	}
	return xerrors.Errorf("workspace %s has moved on: %w", row.WorkspaceName, ErrNotNow)
}

// endHandOut lets the next who asks try at once, also where the one who asked is gone.
func (s *Service) endHandOut(ctx context.Context, row viewsdb.RunnerOfRow, until *time.Time) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	err := runnersdb.New(s.Store).EndHandOut(ctx, runnersdb.EndHandOutParams{
		WorkspaceID: row.WorkspaceID, Incarnation: row.Incarnation, AskingUntil: until,
	})
	if err != nil {
		s.Log.Warn(ctx, "give up to register", slog.F("workspace", row.WorkspaceName), slog.Error(err))
	}
}

// Place is where a workspace's runner belongs, and what to trust there: no secret.
type Place struct {
	Name     string // of the runner, at the forge
	Kind     string // github or gitea
	Path     string // of the entity: acme/shop, acme
	Labels   []string
	Group    string
	CABundle string // PEM; may be empty
}

// Place is the workspace's. ErrNoRunner.
func (s *Service) Place(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (Place, error) {
	row, err := s.runnerOf(ctx, workspaceID, incarnation)
	if err != nil {
		return Place{}, err
	}
	return Place{
		Name: row.Name, Kind: string(row.Kind), Path: row.Path, Labels: row.RunnerLabels, Group: row.RunnerGroup, CABundle: row.CaBundle,
	}, nil
}
