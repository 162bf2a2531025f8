package states

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/statesdb"
)

// ErrOver: a later attempt or run has taken this one's place, or its job has ended.
var ErrOver = errors.New("the run is over: nothing is stored for it any more")

// ErrNotAToken: no run has that token. It says no more to strangers.
var ErrNotAToken = errors.New("this is not the token of a run")

// Service keeps states, on one replica. It is safe for concurrent use.
type Service struct {
	Store *database.Store
	Keys  *seal.Keys
}

// Credentials are what Terraform authenticates with, as user name and password.
type Credentials struct {
	WorkspaceID uuid.UUID
	Token       string // secret
}

// Run is a run whose token was good a moment ago.
type Run struct {
	WorkspaceID uuid.UUID
	Workspace   string // its name
	incarnation int32
	hash        []byte // of the token
}

const tokenBytes = 32

// Begin begins a run of the attempt that holds the job. It ends the run before, with its lock. ErrOver: another attempt
// holds the job by now.
func (s *Service) Begin(ctx context.Context, jobID uuid.UUID, attempt int32) (Credentials, error) {
	token := newToken()
	workspaceID, err := statesdb.New(s.Store).BeginTerraformRun(ctx, statesdb.BeginTerraformRunParams{
		JobID: jobID, Attempt: attempt, TokenHash: hashOf(token),
	})
	if database.NoRows(err) {
		return Credentials{}, xerrors.Errorf("begin terraform run: %w", ErrOver)
	}
	if err != nil {
		return Credentials{}, xerrors.Errorf("begin terraform run: %w", err)
	}
	return Credentials{WorkspaceID: workspaceID, Token: token}, nil
}

// checkFor is how long a run without a job may take.
const checkFor = time.Hour

// BeginAlone begins a run of what has no workspace: a check makes it and removes it, or a sweep finds that it was left behind. ErrOver:
// there is a workspace, whose jobs begin its runs.
func (s *Service) BeginAlone(ctx context.Context, workspaceID uuid.UUID, name string, incarnation int32) (Credentials, error) {
	token := newToken()
	n, err := statesdb.New(s.Store).BeginTerraformCheck(ctx, statesdb.BeginTerraformCheckParams{
		WorkspaceID: workspaceID, Incarnation: incarnation, Name: name, Seconds: checkFor.Seconds(), TokenHash: hashOf(token),
	})
	if err == nil && n == 0 {
		err = ErrOver
	}
	if err != nil {
		return Credentials{}, xerrors.Errorf("begin terraform run: %w", err)
	}
	return Credentials{WorkspaceID: workspaceID, Token: token}, nil
}

func newToken() string {
	var secret [tokenBytes]byte
	_, _ = rand.Read(secret[:]) // never fails: the program ends where there is no randomness
	return base64.RawURLEncoding.EncodeToString(secret[:])
}

// Authenticate finds the run of a token. The errors are ErrNotAToken, ErrOver and those of the database.
func (s *Service) Authenticate(ctx context.Context, user, token string) (Run, error) {
	id, err := uuid.Parse(user)
	if err != nil {
		return Run{}, ErrNotAToken
	}
	row, err := statesdb.New(s.Store).TerraformRun(ctx, id)
	hash := hashOf(token)
	switch {
	case database.NoRows(err):
		return Run{}, ErrNotAToken
	case err != nil:
		return Run{}, xerrors.Errorf("read terraform run: %w", err)
	case subtle.ConstantTimeCompare(row.TokenHash, hash) != 1:
		return Run{}, ErrNotAToken
	case !row.Running:
		return Run{}, ErrOver
	}
	return Run{WorkspaceID: id, Workspace: row.Workspace, incarnation: row.Incarnation, hash: hash}, nil
}

func hashOf(token string) []byte {
	hash := sha256.Sum256([]byte(token))
	return hash[:]
}

// lock is what holds a state, zero for none.
type lock struct {
	id   string
	info json.RawMessage
}

// while does something to the states of a run, in one transaction and only while the run is the newest. what is for errors.
func (s *Service) while(ctx context.Context, run Run, what string, do func(context.Context, *statesdb.Queries, lock) error) error {
	return s.Store.InTx(ctx, database.TxOptions{Label: what}, func(ctx context.Context, tx pgx.Tx) error {
		q := statesdb.New(tx)
		held, err := q.HoldTerraformRun(ctx, statesdb.HoldTerraformRunParams{WorkspaceID: run.WorkspaceID, TokenHash: run.hash})
		if database.NoRows(err) {
			return ErrOver
		}
		if err != nil {
			return err
		}
		return do(ctx, q, lock{held.LockID, held.LockInfo})
	})
}
