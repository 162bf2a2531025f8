package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What cannot be the name of a workspace is refused without the database, which this server has not.
func TestPublicly_names(t *testing.T) {
	t.Parallel()
	s := &server{}
	for _, name := range []string{"", "x", "prebuild-", "prebuild-aaaaaaaaaaaaaaaa", "prebuild-aaaaaaaaaaaaaa1", "PREBUILD-aaaaaaaaaaaaaaa"} {
		_, err := s.publicly(t.Context(), name, 80, "")
		require.ErrorIs(t, err, errNoTicket, name)
	}
	require.Panics(t, func() { _, _ = s.publicly(t.Context(), "prebuild-aaaaaaaaaaaaaaa", 80, "") })
}
