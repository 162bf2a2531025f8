package auth

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
)

// A refusal names what somebody cannot do in words, for every action that a role may have.
func TestWords(t *testing.T) {
	t.Parallel()
	for action := range policy {
		assert.NotEmpty(t, policy[action].words, action)
	}
	require.Equal(t, "Your role (member) cannot view the audit log", Cannot(database.RoleMember, ActReadAudit))
}
