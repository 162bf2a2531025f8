package states

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/statesdb"
)

// MaxOutput is how much is kept of what Terraform says of a workspace, in bytes, from its end.
const MaxOutput = 256 << 10

// AppendOutput stores more output of the run of a token, which has no secrets any more. ErrOver: the run is over.
func (s *Service) AppendOutput(ctx context.Context, workspaceID uuid.UUID, token, text string) error {
	if text = database.Text(text); len(text) > MaxOutput {
		text = strings.ToValidUTF8(text[len(text)-MaxOutput:], "")
	}
	if text == "" {
		return nil
	}
	return s.while(ctx, runOf(workspaceID, token), "store output", func(ctx context.Context, q *statesdb.Queries, _ lock) error {
		return q.AppendTerraformOutput(ctx, statesdb.AppendTerraformOutputParams{WorkspaceID: workspaceID, Chunk: text, Most: MaxOutput})
	})
}

// Output is what was stored after a place in the output, and the place where it ends. The first place is 0.
func (s *Service) Output(ctx context.Context, workspaceID uuid.UUID, after int64) (text string, end int64, err error) {
	rows, err := statesdb.New(s.Store).TerraformOutput(ctx, statesdb.TerraformOutputParams{WorkspaceID: workspaceID, After: after})
	if err != nil {
		return "", after, xerrors.Errorf("read output: %w", err)
	}
	var all strings.Builder
	for _, row := range rows {
		all.WriteString(row.Chunk)
		after = row.Seq
	}
	return all.String(), after, nil
}

// WorkIsDue says whether a worker is at the workspace, or will be, so that more output comes.
func (s *Service) WorkIsDue(ctx context.Context, workspaceID uuid.UUID) (bool, error) {
	due, err := statesdb.New(s.Store).TerraformWorkIsDue(ctx, workspaceID)
	if err != nil {
		return false, xerrors.Errorf("look for jobs of workspace: %w", err)
	}
	return due, nil
}
