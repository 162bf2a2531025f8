package api //nolint:testpackage // Whose limits a request counts for has no way out to the outside.

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// Anonymous visitors have no user's limits: they would share them, and keep each other out of all public ports.
func TestTarget_anonymous(t *testing.T) {
	t.Parallel()
	user := uuid.New()
	e := entrance{
		EntranceRow: viewsdb.EntranceRow{ID: uuid.New(), TunnelID: uuid.New()},
		who:         auth.Identity{Principal: auth.Principal{UserID: user}},
	}
	require.Equal(t, user, e.target().UserID)
	e.publicPort = 3000
	require.Equal(t, uuid.Nil, e.target().UserID)
	require.Equal(t, e.ID, e.target().WorkspaceID, "the workspace's limit holds for all")
}
