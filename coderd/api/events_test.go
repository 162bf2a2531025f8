package api_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// newWatchedWorld is a world whose server logs nothing: what handles a stream may outlive the test by a moment.
func newWatchedWorld(t *testing.T) *world {
	t.Helper()
	return newWorldLogging(t, slog.Make())
}

// hearing is long enough for hundreds of streams on a busy machine.
const hearing = 3 * time.Minute

// listener is a stream of a user that has heard of everything.
type listener struct {
	ctx    context.Context
	stream *sdk.EventStream
	heard  map[sdk.Hint]bool
}

// listenTo opens n streams at once, of each of the users in turn.
func (w *world) listenTo(n int, users ...string) []*listener {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hearing)
	w.t.Cleanup(cancel)
	listeners := make([]*listener, n)
	var joining sync.WaitGroup
	for i := range listeners {
		client := w.as(users[i%len(users)])
		joining.Go(func() {
			stream, err := client.Events(ctx)
			if !assert.NoError(w.t, err) {
				return
			}
			w.t.Cleanup(stream.Close)
			first, err := stream.Next(ctx)
			assert.NoError(w.t, err)
			assert.True(w.t, first.Everything, "the first message is everything")
			assert.Positive(w.t, stream.Reconnect())
			listeners[i] = &listener{ctx, stream, map[sdk.Hint]bool{}}
		})
	}
	joining.Wait()
	if w.t.Failed() {
		w.t.FailNow()
	}
	return listeners
}

// until reads until all of the hints were heard.
func (l *listener) until(hints ...sdk.Hint) error {
	for _, hint := range hints {
		for !l.heard[hint] {
			e, err := l.stream.Next(l.ctx)
			if err != nil {
				return err
			}
			for _, h := range e.Hints {
				l.heard[h] = true
			}
		}
	}
	return nil
}

func hint(topic string, id uuid.UUID) sdk.Hint { return sdk.Hint{Topic: topic, ID: id.String()} }

// Each of 500 clients hears of each of 50 changes: of the workspace, its claim, its preset and the record of it.
func TestEvents_everyClientHearsEveryChange(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWatchedWorld(t)
	const clients, changes = 500, 50
	preset, err := w.as("owner").Preset(ctx, "plain", "default")
	require.NoError(t, err)
	hints := []sdk.Hint{hint(sdk.TopicPreset, preset.ID)}
	var claimed []string
	for range changes {
		row := w.workspace("plain", "claimed", "other")
		claimed = append(claimed, row.Name)
		hints = append(hints, hint(sdk.TopicWorkspace, row.ID), hint(sdk.TopicClaim, row.ClaimID.UUID))
	}
	listeners := w.listenTo(clients, "owner", "admin", "auditor", "other")
	require.Equal(t, clients, w.streams())

	var listening sync.WaitGroup
	for _, l := range listeners {
		listening.Go(func() { assert.NoError(t, l.until(hints...)) })
	}
	for _, name := range claimed {
		_, err := w.as("owner").ReleaseWorkspace(ctx, name)
		require.NoError(t, err)
	}
	listening.Wait()
	for _, l := range listeners {
		l.stream.Close()
	}
	require.Eventually(t, func() bool { return w.streams() == 0 }, time.Minute, poll, "streams of clients that are gone end")
}

// streams is how many the server says it has.
func (w *world) streams() int {
	w.t.Helper()
	families, err := w.metrics.Gather()
	require.NoError(w.t, err)
	for _, family := range families {
		if family.GetName() == "prewarm_event_streams" {
			return int(family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	require.FailNow(w.t, "no metric of streams")
	return 0
}

// A member hears of its own workspaces and of all presets; not of others' workspaces, nor of the audit log.
func TestEvents_onlyWhatOneMayRead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWatchedWorld(t)
	mine, theirs := w.workspace("plain", "claimed", "member"), w.workspace("quickstart", "claimed", "other")
	template, err := w.as("owner").Template(ctx, "plain")
	require.NoError(t, err)
	three := w.listenTo(3, "member", "auditor", "other")
	member, auditor, other := three[0], three[1], three[2]

	_, err = w.as("owner").ReleaseWorkspace(ctx, theirs.Name)
	require.NoError(t, err)
	_, err = w.as("admin").Pause(ctx, sdk.PauseRequest{Scope: "global", Reason: "test"})
	require.NoError(t, err)
	_, err = w.as("member").ReleaseWorkspace(ctx, mine.Name)
	require.NoError(t, err)
	require.NoError(t, w.as("admin").DeprecateTemplate(ctx, "plain"))

	last := hint(sdk.TopicTemplate, template.ID) // the last change is heard of last, or with the ones before
	require.NoError(t, auditor.until(last, hint(sdk.TopicWorkspace, theirs.ID), hint(sdk.TopicWorkspace, mine.ID),
		sdk.Hint{Topic: sdk.TopicPause, ID: "global"}))
	require.NoError(t, member.until(last, hint(sdk.TopicWorkspace, mine.ID)))
	require.NoError(t, other.until(last, hint(sdk.TopicWorkspace, theirs.ID)))
	topics := map[string]bool{}
	for h := range auditor.heard {
		topics[h.Topic] = true
	}
	require.True(t, topics[sdk.TopicAudit])
	for h := range other.heard {
		require.NotEqual(t, mine.ID.String(), h.ID)
	}
	for h := range member.heard {
		require.NotEqual(t, theirs.ID.String(), h.ID)
		require.NotEqual(t, theirs.ClaimID.UUID.String(), h.ID)
		require.Contains(t, []string{sdk.TopicWorkspace, sdk.TopicClaim, sdk.TopicPreset, sdk.TopicTemplate}, h.Topic)
	}
}

// A stream ends with its token, and with its user's role; those of others go on.
func TestEvents_endWithTheToken(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWatchedWorld(t)
	three := w.listenTo(3, "admin", "member", "other")
	revoked, demoted, other := three[0], three[1], three[2]

	require.NoError(t, w.as("owner").RevokeToken(ctx, "admin"))
	var refusal *sdk.Error
	require.ErrorAs(t, revoked.until(sdk.Hint{}), &refusal)
	require.Equal(t, http.StatusUnauthorized, refusal.Status)

	_, err := w.store.Pool.Exec(ctx, `UPDATE memberships SET role = 'auditor'
		WHERE user_id = (SELECT id FROM users WHERE name = 'member')`)
	require.NoError(t, err)
	require.Equal(t, websocket.StatusServiceRestart, websocket.CloseStatus(demoted.until(sdk.Hint{})))

	mine := w.workspace("plain", "claimed", "other")
	_, err = w.as("other").ReleaseWorkspace(ctx, mine.Name)
	require.NoError(t, err)
	require.NoError(t, other.until(hint(sdk.TopicWorkspace, mine.ID)))

	w.stop() // as a replica that stops does
	require.Equal(t, websocket.StatusServiceRestart, websocket.CloseStatus(other.until(sdk.Hint{})))
	_, err = w.as("other").Events(ctx)
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, http.StatusServiceUnavailable, refusal.Status)
}

// A page of another origin gets no stream, and who asks without an upgrade is told how.
func TestEvents_refusals(t *testing.T) {
	t.Parallel()
	w := newWatchedWorld(t)
	a := w.call(w.token["owner"], http.MethodGet, "/api/v1/events", "")
	require.Equal(t, http.StatusUpgradeRequired, a.status)
	ctx, cancel := context.WithTimeout(context.Background(), hearing)
	defer cancel()
	for origin, want := range map[string]int{"https://elsewhere.example": http.StatusForbidden, w.url: http.StatusSwitchingProtocols} {
		conn, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(w.url, "http")+"/api/v1/events",
			&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + w.token["owner"]}, "Origin": {origin}}})
		require.NotNil(t, resp, "%s: %v", origin, err)
		require.Equal(t, want, resp.StatusCode)
		if conn != nil {
			_ = conn.CloseNow()
		}
	}
}
