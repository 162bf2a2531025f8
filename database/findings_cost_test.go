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
)

// When all of a large provider is amiss, that is saved: each finding is looked up among those before, and not compared with
// all of them, which at this size would go on for minutes; the plan says which, on a machine of any speed.
func TestCost_findingsOfAMassDiscrepancy(t *testing.T) {
	t.Parallel()
	store := openCost(t)
	const many = 50_000
	save := func(from, to int) []database.SaveFindingsRow {
		arg := database.SaveFindingsParams{Provider: "sim", BeganAt: time.Now()}
		for n := from; n < to; n++ {
			arg.Subjects = append(arg.Subjects, fmt.Sprintf("subject %d", n))
			arg.Verdicts = append(arg.Verdicts, "missing")
			arg.WorkspaceIds = append(arg.WorkspaceIds, uuid.New())
			arg.Resources, arg.ProviderIds = append(arg.Resources, ""), append(arg.ProviderIds, "")
			arg.Details = append(arg.Details, "")
		}
		plan, err := store.Pool.Query(context.Background(), "EXPLAIN "+database.SaveFindingsSQL, arg.Provider, arg.Site,
			arg.BeganAt, arg.Subjects, arg.Verdicts, arg.WorkspaceIds, arg.Resources, arg.ProviderIds, arg.Details)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(plan, pgx.RowTo[string])
		require.NoError(t, err)
		require.Regexp(t, "hashed SubPlan|Hash (Right )?Anti Join", strings.Join(lines, "\n"))
		rows, err := store.SaveFindings(context.Background(), arg)
		require.NoError(t, err)
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
