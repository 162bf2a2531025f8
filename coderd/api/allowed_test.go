package api

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/database"
)

// TestWhileAllowed: what was allowed when a request began is asked each second, and ends it once it is not so any more; a
// database that cannot say ends it after ten seconds, and not before.
func TestWhileAllowed(t *testing.T) {
	t.Parallel()
	down := errors.New("the database is down")
	member := auth.Membership{OrganizationID: uuid.New(), Organization: "default", Role: database.RoleMember}
	who := auth.Identity{Principal: auth.Principal{Memberships: []auth.Membership{member}}, Membership: member}
	auditor := member
	auditor.Role = database.RoleAuditor
	same := func() (auth.Principal, error) { return who.Principal, nil }
	failing := func() (auth.Principal, error) { return auth.Principal{}, down }
	times := func(n int, answer func() (auth.Principal, error)) (list []func() (auth.Principal, error)) {
		for range n {
			list = append(list, answer)
		}
		return list
	}
	for name, test := range map[string]struct {
		answers []func() (auth.Principal, error) // one each second; the last ends the request, if anything does
		want    error
	}{
		"allowed": {times(30, same), nil},
		"revoked": {append(times(3, same), func() (auth.Principal, error) { return auth.Principal{}, auth.ErrUnauthenticated }), errNotValid},
		"other role": {append(times(3, same), func() (auth.Principal, error) {
			return auth.Principal{Memberships: []auth.Membership{auditor}}, nil
		}), errOtherRole},
		"no member":       {[]func() (auth.Principal, error){func() (auth.Principal, error) { return auth.Principal{}, nil }}, errOtherRole},
		"down for 9 s":    {append(append(times(2, same), times(9, failing)...), times(5, same)...), nil},
		"down for 10 s":   {append(times(2, same), times(10, failing)...), errUnconfirmed},
		"down repeatedly": {append(append(times(9, failing), same), times(9, failing)...), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := quartz.NewMock(t)
			asked := 0
			ctx, stop := whileAllowed(t.Context(), clock, who, func(context.Context) (auth.Principal, error) {
				asked++
				return test.answers[asked-1]()
			})
			defer stop()
			for i := range test.answers {
				require.NoError(t, ctx.Err(), "after %d s", i)
				clock.Advance(time.Second).MustWait(t.Context())
			}
			require.Equal(t, len(test.answers), asked)
			if test.want == nil {
				require.NoError(t, ctx.Err())
				return
			}
			require.Equal(t, test.want, context.Cause(ctx))
			require.ErrorIs(t, context.Cause(ctx), claim.ErrNotAllowed)
			clock.Advance(time.Second).MustWait(t.Context())
			require.Equal(t, len(test.answers), asked, "nobody asks on")
		})
	}
}
