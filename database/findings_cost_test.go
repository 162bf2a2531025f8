package database_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
)

// When all of a large provider is amiss, that is saved: each finding is looked up among those before, and not compared with
// all of them, which at this size would go on for minutes; the plan says which, on a machine of any speed.
func TestCost_findingsOfAMassDiscrepancy(t *testing.T) {
	t.Parallel()
	store := openCost(t)
	const many = 50_000
	save := func(from, to int) []inventorydb.SaveFindingsRow {
		arg := inventorydb.SaveFindingsParams{Provider: "sim", BeganAt: time.Now()}
		for n := from; n < to; n++ {
			arg.Subjects = append(arg.Subjects, fmt.Sprintf("subject %d", n))
			arg.Verdicts = append(arg.Verdicts, "missing")
			arg.WorkspaceIds = append(arg.WorkspaceIds, uuid.New())
			arg.Resources, arg.ProviderIds = append(arg.Resources, ""), append(arg.ProviderIds, "")
			arg.Details = append(arg.Details, "")
		}
		db := &explained{Store: store}
		rows, err := inventorydb.New(db).SaveFindings(context.Background(), arg)
		require.NoError(t, err)
		require.Regexp(t, "hashed SubPlan|Hash (Right )?Anti Join", db.plan)
		return rows
	}
	require.Len(t, save(0, many), many)
	again := 0
	for _, row := range save(many/2, many+many/2) {
		if row.Seen == 2 {
			again++
		}
	}
	require.Equal(t, many/2, again)
	var left int
	require.NoError(t, store.Pool.QueryRow(context.Background(), "SELECT count(*) FROM inventory_findings").Scan(&left))
	require.Equal(t, many, left, "what is over is gone")
}

// explained keeps the plan of the last query that ran on it.
type explained struct {
	*database.Store
	plan string
}

func (e *explained) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	plan, err := e.Store.Query(ctx, "EXPLAIN "+sql, args...)
	if err != nil {
		return nil, err
	}
	lines, err := pgx.CollectRows(plan, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	e.plan = strings.Join(lines, "\n")
	return e.Store.Query(ctx, sql, args...)
}
