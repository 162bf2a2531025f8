package api //nolint:testpackage // The clock of links has no way in from outside.

import (
	"testing"
	"time"

	"cdr.dev/slog/sloggers/slogtest"
	"github.com/coder/quartz"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// A ticket is good until its time, as its own kind, unchanged, at every replica, and until its key is retired.
func TestTicket(t *testing.T) {
	t.Parallel()
	ctx, store, clock := t.Context(), dbtest.Open(t), quartz.NewMock(t)
	replica := func() *server {
		log := slogtest.Make(t, nil)
		return &server{Options: Options{Clock: clock, Instances: instance.New(instance.Options{
			Store: store, Writer: workspaces.New(store, uuid.New, "test"), Clock: clock, Log: log,
			Registerer: prometheus.NewRegistry(), URL: "http://test", Hints: hints.Local(hints.Ears{}), Binaries: t.TempDir(),
		})}}
	}
	here, there := replica(), replica()
	want := ticket{
		ID: uuid.New(), Expires: jwt.NewNumericDate(clock.Now().Add(linkAge)), WorkspaceID: uuid.New(), ClaimID: uuid.New(), Port: 3000,
		UserID: uuid.New(), OrganizationID: uuid.New(), TokenID: uuid.New(), CredentialID: uuid.New(), Path: "/a?b",
	}
	signed, err := here.sign(ctx, linkTicket, want)
	require.NoError(t, err)
	for _, s := range []*server{here, there} {
		got, err := s.verify(ctx, linkTicket, signed)
		require.NoError(t, err)
		require.Equal(t, want, got)
		_, err = s.verify(ctx, cookieTicket, signed)
		require.ErrorIs(t, err, errNoTicket, "a link is no cookie")
	}
	for _, wrong := range []string{"", "x", signed + "x", signed[:len(signed)-4] + "AAAA", "eyJhbGciOiJub25lIn0.e30.", string(make([]byte, maxTicket+1))} {
		_, err = here.verify(ctx, linkTicket, wrong)
		require.ErrorIs(t, err, errNoTicket, wrong)
	}
	clock.Advance(linkAge - time.Second).MustWait(ctx)
	_, err = here.verify(ctx, linkTicket, signed)
	require.NoError(t, err)
	clock.Advance(time.Second).MustWait(ctx)
	_, err = here.verify(ctx, linkTicket, signed)
	require.ErrorIs(t, err, errNoTicket, "it is over")

	want.Expires = jwt.NewNumericDate(clock.Now().Add(ticketAge))
	cookie, err := here.sign(ctx, cookieTicket, want)
	require.NoError(t, err)
	_, err = there.verify(ctx, cookieTicket, cookie)
	require.NoError(t, err)
	_, _, err = here.Instances.Rotate(ctx, store, true)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // keys are read again once they are old
		clock.Advance(time.Second)
		_, err = there.verify(ctx, cookieTicket, cookie)
		return err != nil
	}, time.Minute, time.Millisecond)
	require.ErrorIs(t, err, errNoTicket, "its key is retired")
}
