package api

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/states"
)

// Terraform's backend `http`: the status codes are that protocol's. It speaks with runs of Terraform, whose tokens are of a
// third kind, good for nothing else.

var runKey = &contextKey{"run"}

const jsonType = "application/json"

type stateOutput struct {
	Status int
	Type   string `header:"Content-Type"`
	MD5    string `header:"Content-MD5" doc:"Of the state, in base64"`
	Body   []byte
}

type stateInput struct {
	ID      string `query:"ID" doc:"Of the lock that the writer holds"`
	RawBody []byte `contentType:"application/json"`
}

type lockInput struct {
	RawBody []byte `contentType:"application/json"`
}

func (s *server) registerTerraformState() {
	registerForRun(s, operation{
		id: "read-terraform-state", method: http.MethodGet, path: "/terraform/state", action: auth.ActReadState,
		endless: true, summary: "Read the newest state of the run's workspace", description: "204 if there is none yet.",
	}, s.readState)
	registerForRun(s, operation{
		id: "write-terraform-state", method: http.MethodPost, path: "/terraform/state", action: auth.ActWriteState,
		endless: true, upload: jsonType, summary: "Store a state as the newest of the run's workspace",
		description: "At most 64 MiB, from the process that holds the lock. 409 if the lock is not held, a later run has begun, or " +
			"a state as new is stored already.",
	}, s.writeState)
	registerForRun(s, operation{
		id: "lock-terraform-state", method: http.MethodPost, path: "/terraform/state/lock", action: auth.ActWriteState,
		summary:     "Lock the state of the run's workspace",
		description: "The body describes who locks. 423 with that of the holder if it is locked. The lock ends with the run.",
	}, s.lockState)
	registerForRun(s, operation{
		id: "unlock-terraform-state", method: http.MethodDelete, path: "/terraform/state/lock", action: auth.ActWriteState,
		summary: "Unlock the state of the run's workspace", description: "The body is that of the lock.",
	}, s.unlockState)
}

// registerForRun is register for operations of Terraform's backend.
func registerForRun[I any](s *server, op operation, handle func(ctx context.Context, run states.Run, in *I) (*stateOutput, error)) {
	limit := int64(maxInstanceBody)
	if op.upload != "" {
		limit = states.MaxBytes + 1 // huma reads less than its limit
		s.uploads[op.method+" "+prefix+op.path] = true
	}
	op.tag, op.status = "terraform", http.StatusOK
	registerAs(s, op, runKey, huma.Operation{
		MaxBodyBytes:     limit,
		BodyReadTimeout:  -1,   // coderd/serve bounds it by its size
		SkipValidateBody: true, // the room reads it
		Security:         []map[string][]string{{"run": {}}},
		Errors:           []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict, http.StatusServiceUnavailable},
		Middlewares:      huma.Middlewares{s.deadline(op), s.authenticateRun},
	}, func(ctx context.Context, run states.Run, in *I) (*stateOutput, error) {
		out, err := handle(ctx, run, in)
		return out, stateProblem(err)
	})
}

// authenticateRun finds out for which run is asked. A user's token is refused as such; Terraform itself sends none.
func (s *server) authenticateRun(hc huma.Context, next func(huma.Context)) {
	r, _ := humachi.Unwrap(hc)
	user, token, basic := r.BasicAuth()
	if !basic {
		if token = bearer(hc); token != "" {
			if _, err := s.Auth.Authenticate(hc.Context(), auth.Secret(token)); err == nil {
				s.refuse(hc, huma.Error403Forbidden("this is for runs of Terraform: only their tokens may do it, and yours is a user's"))
				return
			}
		}
		s.unauthorized(hc, "the token of a run is needed, as the password of its workspace's id")
		return
	}
	run, err := s.States.Authenticate(hc.Context(), user, token)
	switch {
	case errors.Is(err, states.ErrNotAToken), errors.Is(err, states.ErrOver):
		s.unauthorized(hc, err.Error())
		return
	case err != nil:
		s.refuse(hc, s.problem(hc.Context(), err))
		return
	}
	noteUser(hc.Context(), run.Workspace)
	next(huma.WithValue(hc, runKey, run))
}

// stateProblem gives refusals of the room their status. What is none is an error as any other.
func stateProblem(err error) error {
	switch {
	case errors.Is(err, states.ErrOver), errors.Is(err, states.ErrNotLocked), errors.Is(err, states.ErrOvertaken):
		return huma.Error409Conflict(innermost(err))
	case errors.Is(err, states.ErrBadState), errors.Is(err, states.ErrBadLock):
		return huma.Error422UnprocessableEntity(innermost(err))
	}
	return err
}

func (s *server) readState(ctx context.Context, run states.Run, _ *none) (*stateOutput, error) {
	state, sum, err := s.States.Read(ctx, run)
	if errors.Is(err, states.ErrNone) {
		return &stateOutput{Status: http.StatusNoContent}, nil
	}
	if err != nil {
		return nil, err
	}
	return &stateOutput{Status: http.StatusOK, Type: jsonType, MD5: base64.StdEncoding.EncodeToString(sum[:]), Body: state}, nil
}

func (s *server) writeState(ctx context.Context, run states.Run, in *stateInput) (*stateOutput, error) {
	if err := s.States.Write(ctx, run, in.ID, in.RawBody); err != nil {
		return nil, err
	}
	return &stateOutput{Status: http.StatusOK}, nil
}

func (s *server) lockState(ctx context.Context, run states.Run, in *lockInput) (*stateOutput, error) {
	return lockAnswer(s.States.Lock(ctx, run, in.RawBody))
}

func (s *server) unlockState(ctx context.Context, run states.Run, in *lockInput) (*stateOutput, error) {
	return lockAnswer(s.States.Unlock(ctx, run, in.RawBody))
}

// lockAnswer has the holder's description where another holds the lock: Terraform shows it.
func lockAnswer(err error) (*stateOutput, error) {
	if locked, is := errors.AsType[*states.LockedError](err); is {
		return &stateOutput{Status: http.StatusLocked, Type: jsonType, Body: locked.Info}, nil
	}
	if err != nil {
		return nil, err
	}
	return &stateOutput{Status: http.StatusOK}, nil
}
