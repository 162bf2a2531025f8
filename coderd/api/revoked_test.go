package api_test

import (
	"context"
	"io"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

// chatty is roomy, whose workspaces say something all the time.
type chatty struct{ roomy }

func (chatty) Logs(ctx context.Context, _ provider.Ref, _ bool) (io.ReadCloser, error) {
	out, in := io.Pipe()
	go func() {
		for ctx.Err() == nil {
			if _, err := io.WriteString(in, "line\n"); err != nil {
				return
			}
		}
		_ = in.CloseWithError(ctx.Err())
	}()
	return out, nil
}

type reached struct{ oneProvider }

func (reached) Sites() []string { return []string{site} }

// TestRevokedMeanwhile: a token that is revoked, and a role that is lost, end what was begun with them: a command, a log that is
// followed, and a claim that waits, also one with a key, which would else be bound to who may not have it.
func TestRevokedMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, test := range map[string]struct {
		take func(w *world, token string)
		says string
	}{
		"revoked": {func(w *world, token string) { require.NoError(w.t, auth.RevokeToken(ctx, w.store, w.owner, token)) }, "not valid any more"},
		"role": {func(w *world, _ string) {
			_, err := w.store.Pool.Exec(ctx, `UPDATE memberships SET role = 'auditor' FROM users u WHERE u.id = user_id AND u.name = 'member'`)
			require.NoError(w.t, err)
		}, "the role of the token's user has changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			_, secret, err := auth.CreateToken(ctx, w.store, w.owner, auth.TokenRequest{Name: "laptop", User: "member", ExpiresIn: time.Hour})
			require.NoError(t, err)
			w.token["laptop"] = secret.Reveal()
			mine := w.workspace("quickstart", "claimed", "member")

			input, held := io.Pipe() // open as long as the test
			t.Cleanup(func() { _ = held.Close() })
			client, err := sdk.New(w.serve(api.Options{Providers: reached{oneProvider{chatty{}}}, Log: slog.Make()}), w.token["laptop"])
			require.NoError(t, err)
			logs, err := client.WorkspaceLogs(ctx, mine.Name, true)
			require.NoError(t, err)
			silent := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, logs)
				_ = logs.Close()
				silent <- err
			}()
			ended := make(chan error, 2)
			go func() {
				_, err := w.as("laptop").Exec(ctx, mine.Name, sdk.ExecRequest{
					ExecStart: sdk.ExecStart{Command: []string{"x"}}, Stdin: input, Stdout: io.Discard, Stderr: io.Discard,
				})
				ended <- err
			}()
			go func() {
				_, err := w.as("laptop").Claim(ctx, sdk.ClaimRequest{Template: "quickstart", Preset: "default", Wait: "10m", Key: "k"})
				ended <- err
			}()
			require.Eventually(t, func() bool { return w.waiting() == 1 }, time.Minute, 10*time.Millisecond)
			test.take(w, "laptop")
			for range 2 {
				select {
				case err := <-ended:
					require.ErrorContains(t, err, test.says)
				case <-time.After(time.Minute):
					require.FailNow(t, "it goes on")
				}
			}
			select {
			case <-silent:
			case <-time.After(20 * time.Second): // before the deadline of other requests
				require.FailNow(t, "the log goes on")
			}
			require.Zero(t, w.waiting())
		})
	}
}

// waiting is how many claims stand in line.
func (w *world) waiting() (n int) {
	require.NoError(w.t, w.store.Pool.QueryRow(context.Background(),
		"SELECT count(*) FROM claims WHERE state = $1", database.ClaimStateWaiting).Scan(&n))
	return n
}
