package states

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
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
	// Resources are addresses of those that the state names, of many only the first. None of a state that an older release stored.
	Resources []string
	// Unsure are addresses of resources that may exist though no state names them: an apply was cut off that was to create them.
	Unsure    []string
	CreatedAt time.Time // of the first state that is kept; where there is none, of the run
}

// summary is what is read of the states of many workspaces.
type summary struct {
	Outputs   map[string]json.RawMessage `json:"outputs"`   // their values
	Resources int                        `json:"resources"` // managed ones
	Named     []string                   `json:"named,omitempty"`
}

// mostNamed bounds the addresses that a summary names, and mostNamedBytes them together: listings read the summaries of all workspaces.
const mostNamed, mostNamedBytes = 100, 8 << 10

// first are as many of the addresses as a summary names.
func first(addresses []string) []string {
	size := 0
	for n, address := range addresses {
		if size += len(address); n == mostNamed || size > mostNamedBytes {
			return addresses[:n]
		}
	}
	return addresses
}

// head is what a state says of itself.
type head struct {
	Lineage string `json:"lineage"`
	Serial  int64  `json:"serial"`
}

// parsed is what is kept of a state beside itself.
type parsed struct {
	head
	summary []byte
	named   []string // addresses of its managed resources
}

// parse reads a state, once: it may be large.
func parse(state []byte) (parsed, error) {
	var is struct {
		head
		Outputs map[string]struct {
			Value json.RawMessage `json:"value"`
		} `json:"outputs"`
		Resources []struct {
			Mode      string `json:"mode"`
			Module    string `json:"module"` // its address
			Type      string `json:"type"`
			Name      string `json:"name"`
			Instances []struct {
				Key     any    `json:"index_key"`
				Deposed string `json:"deposed"` // it was replaced, and is still to be destroyed
			} `json:"instances"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(state, &is); err != nil {
		return parsed{}, xerrors.Errorf("read state: %w", err)
	}
	p := parsed{head: is.head}
	of := summary{Outputs: map[string]json.RawMessage{}}
	for name, o := range is.Outputs {
		of.Outputs[name] = o.Value
	}
	for _, r := range is.Resources {
		if r.Mode != "managed" {
			continue
		}
		of.Resources++
		address := r.Type + "." + r.Name
		if r.Module != "" {
			address = r.Module + "." + address
		}
		for _, i := range r.Instances {
			if i.Deposed == "" {
				p.named = append(p.named, address+index(i.Key))
			}
		}
	}
	of.Named = first(p.named)
	var err error
	if p.summary, err = json.Marshal(of); err != nil {
		return parsed{}, xerrors.Errorf("encode summary: %w", err)
	}
	return p, nil
}

// templates are what Terraform escapes in a text beside what Go does.
var templates = strings.NewReplacer("${", "$${", "%{", "%%{")

// index is the end of an address as Terraform writes it.
func index(key any) string {
	switch key := key.(type) {
	case float64:
		return "[" + strconv.FormatInt(int64(key), 10) + "]"
	case string:
		return "[" + templates.Replace(strconv.Quote(key)) + "]"
	}
	return ""
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

// All are those of all workspaces whose newest state has something, or of which something is unsure.
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
		is, err := s.summary(row)
		if err != nil {
			return nil, err
		}
		if is.Resources > 0 || len(is.Outputs) > 0 || len(row.Creating) > 0 {
			all = append(all, Stored{
				WorkspaceID: row.WorkspaceID, Name: row.Name, Incarnation: row.Incarnation, Outputs: is.Outputs,
				Resources: is.Named, Unsure: row.Creating, CreatedAt: row.FirstAt,
			})
		}
	}
	return all, nil
}

// summary is zero where there is no state.
func (s *Service) summary(row statesdb.TerraformSummariesRow) (is summary, err error) {
	if row.Summary == nil {
		return is, nil
	}
	raw, err := s.Keys.Open(row.Summary, row.SealedBy, aboutSummary(row.WorkspaceID, row.Lineage, row.Serial))
	if err != nil {
		return is, xerrors.Errorf("open summary of the state of workspace %s: %w", row.WorkspaceID, err)
	}
	if err := json.Unmarshal(raw, &is); err != nil {
		return is, xerrors.Errorf("decode summary of the state of workspace %s: %w", row.WorkspaceID, err)
	}
	return is, nil
}
