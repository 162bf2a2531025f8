package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"cdr.dev/slog"
	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/tunnel"
	"github.com/prewarm-dev/prewarm/coderd/wait"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	// tunnelPatience is how long a request waits for an agent that is about to open its tunnel again, and tunnelAgain how
	// soon it is looked for first. The pauses double, up to tunnelSeldom.
	tunnelPatience = 5 * time.Second
	tunnelAgain    = 50 * time.Millisecond
	tunnelSeldom   = 400 * time.Millisecond
	// watchSeldom is the same for the end of a process, for which nobody waits. An agent that answers sooner than watchLeast that a
	// process still runs is asked no more often either: one of ours lets the question wait for long.
	watchSeldom = 10 * time.Second
	watchLeast  = time.Second
	// mostWatched is how many processes of a workspace are watched: more than an agent of ours has.
	mostWatched = 1000
	// maxRefusal bounds what an agent, which nobody trusts, can say of a refusal.
	maxRefusal = 4 << 10
)

// entrance is a claimed workspace that who may enter: its user, or a role that it is open to.
type entrance struct {
	viewsdb.EntranceRow
	who    auth.Identity
	action auth.Action
	// publicPort is the one port that an anonymous visitor may reach; 0: the visitor is known.
	publicPort int
	// impatient says that an agent without a tunnel is not waited for.
	impatient bool
}

// entranceOf finds a workspace to enter, in one read. It is a refusal where who may not, or where nobody can.
func (s *server) entranceOf(ctx context.Context, who auth.Identity, action auth.Action, ref string) (entrance, error) {
	params := viewsdb.EntranceParams{OrganizationID: uuid.NullUUID{UUID: who.OrganizationID, Valid: true}}
	if id, err := uuid.Parse(ref); err == nil {
		params.ID = uuid.NullUUID{UUID: id, Valid: true}
	} else {
		params.Name = &ref
	}
	row, err := s.entrance(ctx, who.UserID, params)
	if err != nil && !database.NoRows(err) {
		return entrance{}, xerrors.Errorf("find workspace: %w", err)
	}
	e := entrance{EntranceRow: row, who: who, action: action}
	if err != nil || !(action == auth.ActUseWorkspace && e.openToRole()) && !who.May(action, row.OwnerID) {
		return entrance{}, auth.Refuse(auth.ErrNotFound, "there is no workspace %q that you have claimed; `prewarm workspace list` "+
			"shows yours", ref)
	}
	// A prebuild that somebody was in would be handed on as new.
	if row.State != database.WorkspaceStateClaimed {
		return e, auth.Refuse(auth.ErrConflict, "workspace %s is %s: only a claimed one can be entered", row.Name, row.State)
	}
	return e, nil
}

// inside refuses what cannot be entered through an agent.
func (s *server) inside(ctx context.Context, who auth.Identity, ref string) (entrance, error) {
	e, err := s.entranceOf(ctx, who, auth.ActUseWorkspace, ref)
	switch {
	case err != nil:
		return e, err
	case !e.HasAgent:
		return e, huma.Error501NotImplemented("template " + e.Template + " has no agent, through which its workspaces could be entered: set agent in it, or use exec")
	case !e.DataPlane:
		return e, huma.Error501NotImplemented("template " + e.Template + " turns the data plane off")
	case s.Tunnels == nil:
		return e, huma.Error501NotImplemented("this server has no data plane")
	}
	s.whileOpen(ctx, e)
	return e, nil
}

// whileOpen ends a request that goes on for long once the workspace is not open any more to the role that made it.
func (s *server) whileOpen(ctx context.Context, e entrance) {
	if end, ok := ctx.Value(endKey).(context.CancelCauseFunc); ok && e.role() != "" {
		s.openings.while(ctx, end, opening{workspace: e.ID, incarnation: e.Incarnation, role: e.role()})
	}
}

func (e entrance) target() tunnel.Target {
	t := tunnel.Target{TunnelID: e.TunnelID, ReplicaID: e.ReplicaID, URL: e.Url, WorkspaceID: e.ID}
	if e.publicPort == 0 {
		t.UserID = e.who.UserID // anonymous visitors would share the limits of one user, and keep each other out
	}
	return t
}

// address is that of something the agent serves. The host names the tunnel, so that connections are of one only.
func (e entrance) address(path string, query url.Values) string {
	u := url.URL{Scheme: "http", Host: e.TunnelID.String(), Path: path, RawQuery: query.Encode()}
	return u.String()
}

// request is one of an agent. What is said in it is sent as JSON, as often as it takes. body is a stream instead, which is sent once;
// length is of that, 0 or less where it is not known.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	what         any
	body         io.Reader
	length       int64
}

func get(path string, query url.Values) request {
	return request{method: http.MethodGet, path: path, query: query}
}

func post(path string, what any) request {
	return request{method: http.MethodPost, path: path, what: what}
}

// call makes a request of the agent in a workspace, and waits for one that is about to open its tunnel again. The caller closes
// the body of the response, which is one of success.
func (s *server) call(ctx context.Context, e entrance, r request) (*http.Response, error) {
	var what []byte
	if r.what != nil {
		var err error
		if what, err = json.Marshal(r.what); err != nil {
			return nil, xerrors.Errorf("encode request: %w", err)
		}
	}
	var resp *http.Response
	e, err := s.patiently(ctx, e, func(e entrance) error {
		if what != nil {
			r.body = bytes.NewReader(what)
		}
		req, err := http.NewRequestWithContext(ctx, r.method, e.address(r.path, r.query), r.body) //nolint:gosec // the host is the id of a tunnel, which is dialed by that
		if err != nil {
			return xerrors.Errorf("build request: %w", err)
		}
		if r.length > 0 {
			req.ContentLength = r.length
		}
		maps.Copy(req.Header, r.header)
		req.Header.Set(sdk.ClaimHeader, e.ClaimID.UUID.String())
		resp, err = s.Tunnels.Transport(e.target()).RoundTrip(req) //nolint:bodyclose // the caller closes it
		return err
	})
	if err != nil {
		return nil, tunnelProblem(ctx, e, err)
	}
	return resp, refusalOf(resp)
}

// again looks for the tunnel of a workspace once more, after a pause.
func (s *server) again(ctx context.Context, e entrance, pause time.Duration) (entrance, error) {
	if err := wait.For(ctx, s.Clock, pause, "api", "tunnel"); err != nil {
		return e, err
	}
	s.looks.forget()
	look := func() (entrance, error) { return s.entranceOf(ctx, e.who, e.action, e.ID.String()) }
	if e.publicPort != 0 {
		look = func() (entrance, error) { return s.publicly(ctx, e.Name, e.publicPort, e.who.Source) }
	}
	now, err := look()
	if err != nil {
		return e, unfound{err}
	}
	if now.Incarnation != e.Incarnation {
		return e, auth.Refuse(auth.ErrConflict, "workspace %s has another claim by now", e.Name)
	}
	return now, nil
}

// unfound is why a workspace could not be looked for again. What comes from its tunnel may look the same: the end of a connection is
// one, be it the database's or an agent's.
type unfound struct{ error }

func (u unfound) Unwrap() error { return u.error }

// patiently tries something through the tunnel of a workspace. It waits for an agent that is about to open its tunnel again:
// nothing has begun then. It returns the workspace as it was at the last try.
func (s *server) patiently(ctx context.Context, e entrance, try func(entrance) error) (entrance, error) {
	began := s.Clock.Now("api", "tunnel")
	for pause := tunnelAgain; ; pause = min(2*pause, tunnelSeldom) {
		err := try(e)
		// What was dialed and failed later may have been heard.
		if !errors.Is(err, tunnel.ErrNone) || ctx.Err() != nil || e.impatient {
			return e, err
		}
		if s.Clock.Since(began, "api", "tunnel") >= tunnelPatience {
			s.Log.Info(ctx, "agent not reached", slog.F("workspace", e.Name), slog.Error(err))
			return e, err
		}
		if e, err = s.again(ctx, e, pause); err != nil {
			return e, err
		}
	}
}

// tunnelProblem is why patiently failed, for the client.
func tunnelProblem(ctx context.Context, e entrance, err error) error {
	var refused *auth.Refusal
	var lost unfound
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refused), errors.As(err, &lost):
		return err
	case errors.Is(err, tunnel.ErrTooMany):
		return huma.Error429TooManyRequests(err.Error())
	case errors.Is(err, tunnel.ErrNone):
		return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable("the agent of workspace "+e.Name+" is not connected at the "+
			"moment: try again"), http.Header{"Retry-After": {"1"}})
	case errors.Is(err, tunnel.ErrNoWay):
		return huma.Error503ServiceUnavailable(err.Error())
	}
	return huma.Error502BadGateway("the connection into workspace " + e.Name + " was cut; what was asked may have been done")
}

// errOldAgent is for agents that have no such path: what they do not find themselves they say in words.
var errOldAgent = huma.Error501NotImplemented("the agent in the workspace is of an earlier release, which does not have this: claim a new workspace")

// refusalOf is what an agent refuses with. It closes the response then.
func refusalOf(resp *http.Response) error {
	if resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	defer resp.Body.Close()
	var said struct {
		Detail string `json:"detail"`
	}
	_ = json.NewDecoder(io.LimitReader(resp.Body, maxRefusal)).Decode(&said)
	if said.Detail == "" && resp.StatusCode == http.StatusNotFound {
		return errOldAgent
	}
	said.Detail = cmp.Or(said.Detail, "the agent refused it")
	return refusal(resp.StatusCode, said.Detail)
}

func refusal(status int, detail string) error {
	switch status {
	case http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusRequestedRangeNotSatisfiable,
		http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusInsufficientStorage:
		return huma.NewError(status, detail)
	}
	return huma.Error502BadGateway(detail)
}

// ask makes a request of the agent in a workspace, and decodes its answer.
func ask[T any](ctx context.Context, s *server, e entrance, r request) (*body[T], error) {
	resp, err := s.call(ctx, e, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := &body[T]{}
	if resp.StatusCode == http.StatusNoContent {
		return out, nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&out.Body); err != nil {
		return nil, huma.Error502BadGateway("the agent of workspace " + e.Name + " gave no answer that can be read")
	}
	return out, nil
}

// askInside is ask for who may enter the workspace of that name or id.
func askInside[T any](ctx context.Context, s *server, who auth.Identity, ref string, r request) (*body[T], error) {
	e, err := s.inside(ctx, who, ref)
	if err != nil {
		return nil, err
	}
	return ask[T](ctx, s, e, r)
}

// begin writes into the audit log that a session has begun, and what it returns that it has ended. What is done in it is in no
// log.
func (s *server) begin(e entrance, kind string, details map[string]any) (end func(after map[string]any)) {
	after := map[string]any{"kind": kind, "claim_id": e.ClaimID.UUID, "right": e.right()}
	maps.Copy(after, details)
	entry := auth.Entry{
		ActorID: e.who.UserID, OrganizationID: e.who.OrganizationID, Action: "session.begin", TargetType: "workspace",
		TargetID: e.ID.String(), TargetName: e.Name, After: after, Source: e.who.Source,
	}
	s.Sessions.Add(entry)
	return func(how map[string]any) {
		entry.Action = "session.end"
		ended := maps.Clone(after)
		for k, v := range how {
			ended[k] = v
		}
		entry.After = ended
		s.Sessions.Add(entry)
	}
}

// watchEnd records the end of a process, which outlives the request that started it. It asks the agent, through whichever tunnel
// it has, until the process or its claim has ended.
func (s *server) watchEnd(ctx context.Context, e entrance, id uuid.UUID, end func(map[string]any)) {
	if !s.watched.begin(e.ID, mostWatched) {
		end(map[string]any{"exit_code": nil, "reason": "too many processes of the workspace are watched"})
		return
	}
	defer s.watched.end(e.ID)
	const failures = 20
	for failed, pause := 0, tunnelAgain; failed < failures; pause = min(2*pause, watchSeldom) {
		e.impatient = true
		asked := s.Clock.Now("api", "watch")
		p, err := ask[sdk.Process](ctx, s, e, get("/processes/"+id.String()+"/wait", nil))
		switch {
		case err == nil && p.Body.ExitCode != nil:
			end(map[string]any{"exit_code": *p.Body.ExitCode})
			return
		case s.Tunnels.Ready() != nil: // the replica stops, and nobody else watches
			return
		case err != nil:
			failed++
		case s.Clock.Since(asked, "api", "watch") >= watchLeast:
			failed, pause = 0, tunnelAgain/2
			continue
		}
		if e, err = s.again(ctx, e, pause); errors.Is(err, auth.ErrNotFound) || errors.Is(err, auth.ErrConflict) {
			break
		}
	}
	end(map[string]any{"exit_code": nil, "reason": "the claim has ended, or the agent does not answer"})
}
