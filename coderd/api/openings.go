package api

import (
	"context"
	"slices"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// To whom else than its user a claimed workspace is open, its version says, and the owner allows it on the provider: roles that
// enter it, and ports that anybody reaches. Each request looks, in Entrance. What goes on for long is looked after here.

const (
	// openingsEvery is how long after its commit it is seen at most that an owner allows something no longer.
	openingsEvery = 500 * time.Millisecond
	openingsLimit = 5 * time.Second
)

// errClosed ends what went on in a workspace that is not open any more.
var errClosed = xerrors.Errorf("the workspace is not open to others any more: %w", auth.ErrNotAllowed)

// opening is what somebody who did not claim a workspace uses of it: a role, or a port.
type opening struct {
	workspace   uuid.UUID
	incarnation int32
	role        database.Role
	port        int32 // 0: none
}

// openings ends what goes on by an opening once that is none any more. One statement looks for all of a replica, and none while
// nothing goes on. It is safe for concurrent use; New makes it.
type openings struct {
	store *database.Store
	clock quartz.Clock
	log   slog.Logger

	mu    sync.Mutex
	used  map[*used]struct{}
	timer *quartz.Timer // nil while nothing goes on
}

type used struct {
	opening
	ctx    context.Context //nolint:containedctx // for the values that a question to the database takes along
	cancel context.CancelCauseFunc
}

func newOpenings(store *database.Store, clock quartz.Clock, log slog.Logger) *openings {
	return &openings{store: store, clock: clock, log: log, used: map[*used]struct{}{}}
}

// while calls cancel, which ends ctx, once the opening is none any more. It returns at once.
func (o *openings) while(ctx context.Context, cancel context.CancelCauseFunc, is opening) {
	this := &used{is, ctx, cancel}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.used[this] = struct{}{}
	context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.used, this)
	})
	if o.timer == nil {
		o.timer = o.clock.AfterFunc(openingsEvery, o.look, "api", "openings")
	}
}

func (o *openings) look() {
	o.mu.Lock()
	if len(o.used) == 0 {
		o.timer = nil
		o.mu.Unlock()
		return
	}
	all := make([]*used, 0, len(o.used))
	var ids []uuid.UUID
	for one := range o.used {
		all, ids = append(all, one), append(ids, one.workspace)
	}
	o.mu.Unlock()
	o.check(all, ids)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.timer.Reset(openingsEvery, "api", "openings")
}

// check ends what is not open any more. While the database does not answer it ends nothing: the watch of tokens does after 10 s.
func (o *openings) check(all []*used, ids []uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(all[0].ctx), openingsLimit)
	defer cancel()
	rows, err := viewsdb.New(o.store).OpenWorkspaces(ctx, ids)
	if err != nil {
		o.log.Warn(ctx, "look whether workspaces are still open", slog.Error(err))
		return
	}
	for _, one := range all {
		if !slices.ContainsFunc(rows, one.isOf) {
			one.cancel(errClosed)
		}
	}
}

func (o opening) isOf(row viewsdb.OpenWorkspacesRow) bool {
	return row.ID == o.workspace && row.Incarnation == o.incarnation &&
		(o.port == 0 && slices.Contains(row.Enter, string(o.role)) || o.port != 0 && slices.Contains(row.PublicPorts, o.port))
}

var endKey = &contextKey{"end"}

// endable is a context that can be ended with a cause by what is found out about its request later.
func endable(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, endKey, cancel), func() { cancel(nil) }
}

// role is by which the workspace is entered; empty where that is by the claim.
func (e entrance) role() database.Role {
	if e.who.UserID == e.OwnerID {
		return ""
	}
	return e.who.Role
}

// openToRole says whether the workspace is open to the role of who enters.
func (e entrance) openToRole() bool { return slices.Contains(e.Enter, string(e.who.Role)) }

// right is by what who entered, for the record.
func (e entrance) right() string {
	if e.publicPort != 0 {
		return "public"
	}
	if role := e.role(); role != "" {
		return string(role)
	}
	return "claim"
}

// public says whether anybody may reach a port of it.
func (e entrance) public(port int) bool { return slices.Contains(e.PublicPorts, int32(port)) }

// opensToOthers says whether workspaces of a version are open to others. What a version says never changes, so that other claims of it
// cost no statement more.
func (s *server) opensToOthers(ctx context.Context, version uuid.UUID) (bool, error) {
	opens, ok := s.openVersions.get(version)
	if ok {
		return opens, nil
	}
	opens, err := viewsdb.New(s.Store).OpenVersion(ctx, version)
	if err != nil {
		return false, xerrors.Errorf("read version: %w", err)
	}
	s.openVersions.put(version, opens)
	return opens, nil
}

// openOf is to whom else some claimed workspaces are open, which are given with their versions. One that is open to nobody is left out.
func (s *server) openOf(ctx context.Context, versions map[uuid.UUID]uuid.UUID) (map[uuid.UUID]sdk.Open, error) {
	var open []uuid.UUID
	for id, version := range versions {
		switch opens, err := s.opensToOthers(ctx, version); {
		case err != nil:
			return nil, err
		case opens:
			open = append(open, id)
		}
	}
	if len(open) == 0 {
		return nil, nil
	}
	rows, err := viewsdb.New(s.Store).OpenWorkspaces(ctx, open)
	if err != nil {
		return nil, xerrors.Errorf("look to whom workspaces are open: %w", err)
	}
	to := make(map[uuid.UUID]sdk.Open, len(rows))
	for _, row := range rows {
		one := sdk.Open{Enter: row.Enter}
		for _, port := range row.PublicPorts {
			one.PublicPorts = append(one.PublicPorts, int(port))
		}
		to[row.ID] = one
	}
	return to, nil
}
