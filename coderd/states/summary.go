package states

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database/statesdb"
)

// Stored is what the newest state of a workspace says.
type Stored struct {
	WorkspaceID uuid.UUID
	Name        string
	Incarnation int32
	Outputs     map[string]json.RawMessage // their values; some are secret
	CreatedAt   time.Time                  // of the first state that is kept
}

// summary is what is read of the states of many workspaces.
type summary struct {
	Outputs   map[string]json.RawMessage `json:"outputs"`   // their values
	Resources int                        `json:"resources"` // managed ones
}

// head is what a state says of itself.
type head struct {
	Lineage string `json:"lineage"`
	Serial  int64  `json:"serial"`
}

// parse reads a state, once: it may be large.
func parse(state []byte) (h head, sum []byte, err error) {
	var is struct {
		head
		Outputs map[string]struct {
			Value json.RawMessage `json:"value"`
		} `json:"outputs"`
		Resources []struct {
			Mode string `json:"mode"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(state, &is); err != nil {
		return head{}, nil, xerrors.Errorf("read state: %w", err)
	}
	of := summary{Outputs: map[string]json.RawMessage{}}
	for name, o := range is.Outputs {
		of.Outputs[name] = o.Value
	}
	for _, r := range is.Resources {
		if r.Mode == "managed" {
			of.Resources++
		}
	}
	if sum, err = json.Marshal(of); err != nil {
		return head{}, nil, xerrors.Errorf("encode summary: %w", err)
	}
	return is.head, sum, nil
}

// Of is what the newest state of a workspace says. The errors are ErrNone, *seal.NoKey and those of the database.
func (s *Service) Of(ctx context.Context, workspaceID uuid.UUID) (Stored, error) {
	return s.one(ctx, statesdb.TerraformSummariesParams{WorkspaceID: uuid.NullUUID{UUID: workspaceID, Valid: true}})
}

// Named is Of a workspace by its name.
func (s *Service) Named(ctx context.Context, name string) (Stored, error) {
	return s.one(ctx, statesdb.TerraformSummariesParams{Name: &name})
}

func (s *Service) one(ctx context.Context, which statesdb.TerraformSummariesParams) (Stored, error) {
	all, err := s.summaries(ctx, which)
	if err == nil && len(all) == 0 {
		err = ErrNone
	}
	if err != nil {
		return Stored{}, err
	}
	return all[0], nil
}

// All are those of all workspaces whose newest state has something.
func (s *Service) All(ctx context.Context) ([]Stored, error) {
	return s.summaries(ctx, statesdb.TerraformSummariesParams{})
}

func (s *Service) summaries(ctx context.Context, which statesdb.TerraformSummariesParams) ([]Stored, error) {
	rows, err := statesdb.New(s.Store).TerraformSummaries(ctx, which)
	if err != nil {
		return nil, xerrors.Errorf("read summaries of states: %w", err)
	}
	all := make([]Stored, 0, len(rows))
	for _, row := range rows {
		raw, err := s.Keys.Open(row.Summary, row.SealedBy, aboutSummary(row.WorkspaceID, row.Lineage, row.Serial))
		if err != nil {
			return nil, xerrors.Errorf("open summary of the state of workspace %s: %w", row.WorkspaceID, err)
		}
		var is summary
		if err := json.Unmarshal(raw, &is); err != nil {
			return nil, xerrors.Errorf("decode summary of the state of workspace %s: %w", row.WorkspaceID, err)
		}
		if is.Resources > 0 || len(is.Outputs) > 0 {
			all = append(all, Stored{
				WorkspaceID: row.WorkspaceID, Name: row.Name, Incarnation: row.Incarnation, Outputs: is.Outputs, CreatedAt: row.FirstAt,
			})
		}
	}
	return all, nil
}
