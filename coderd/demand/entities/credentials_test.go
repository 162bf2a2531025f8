package entities_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
)

// A bundle may hold several authorities, each of which has to be one; what is refused changes nothing, and an empty one takes
// them away.
func TestBundle(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	one, two := authority(t), authority(t)
	bundle := one + "\n" + two + "\n\n"
	w.put("acme", entities.Credential{CABundle: &bundle})
	trusted := func() string {
		t.Helper()
		w.clock.Advance(time.Second)
		return string(w.client(w.service, "shop").(*client).CABundle)
	}
	require.Equal(t, bundle, trusted())
	broken := strings.Replace(two, "MII", "AAA", 1)
	for bad, says := range map[string]string{
		one + broken:           "certificate 2 cannot be read",
		one + two[:len(two)/2]: "after certificate 1 there is something that is not PEM",
		one + two + "-----":    "after certificate 2 there is something that is not PEM",
		one + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n": "block 2 is a PRIVATE KEY",
		"nonsense": "after certificate 0",
	} {
		err := w.service.PutCredential(ctx, w.who, "acme", entities.Credential{CABundle: &bad})
		require.ErrorIs(t, err, auth.ErrInvalid)
		require.ErrorContains(t, err, says)
	}
	require.Equal(t, bundle, trusted())
	none := ""
	w.put("acme", entities.Credential{CABundle: &none})
	require.Empty(t, trusted())
}

// Whoever may change a credential's URL, and does not know its secret, cannot have it sent somewhere else.
func TestURL_wantsTheSecret(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	url := func() string {
		t.Helper()
		w.clock.Advance(time.Second)
		return w.client(w.service, "shop").(*client).URL
	}
	err := w.service.PutCredential(ctx, w.who, "acme", entities.Credential{URL: "https://evil.example"})
	require.ErrorIs(t, err, auth.ErrInvalid)
	require.ErrorContains(t, err, "give the token or private key again")
	require.Equal(t, "https://api.github.com", url())
	w.put("acme", entities.Credential{URL: "https://api.github.com/"}) // is the same
	require.Equal(t, "https://api.github.com", url())
	w.put("acme", entities.Credential{URL: "https://ghe.example/api/v3", Token: token})
	require.Equal(t, "https://ghe.example/api/v3", url())
	for _, bad := range []string{
		"http://ghe.example", "ftp://ghe.example", "https://", "ghe.example", "https://u:p@ghe.example", "https://ghe.example?x=1",
	} {
		err := w.service.PutCredential(ctx, w.who, "acme", entities.Credential{URL: bad, Token: token})
		require.ErrorIs(t, err, auth.ErrInvalid, bad)
		require.NotContains(t, err.Error(), token)
	}
	require.Equal(t, "https://ghe.example/api/v3", url())
}
