package e2e_test

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// span is what the receiver got of one.
type span struct{ name, trace, id, parent, replica string }

// otlp is a receiver of traces, OTLP over HTTP.
type otlp struct {
	*httptest.Server
	mu    sync.Mutex
	spans []span
	raw   strings.Builder // everything that was sent, as text
}

func newOTLP(t *testing.T) *otlp {
	t.Helper()
	r := &otlp{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var in io.Reader = req.Body
		if req.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(req.Body)
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			in = unzipped
		}
		body, err := io.ReadAll(in)
		var export collector.ExportTraceServiceRequest
		if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(body, &export) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.take(&export)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *otlp) take(export *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw.WriteString(export.String())
	for _, of := range export.GetResourceSpans() {
		replica := ""
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.instance.id" {
				replica = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.spans = append(r.spans, span{
					s.GetName(), hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetSpanId()),
					hex.EncodeToString(s.GetParentSpanId()), replica,
				})
			}
		}
	}
}

// chain looks for spans of these names, each the child of the one before, the first without a parent.
func (r *otlp) chain(names ...string) []span {
	r.mu.Lock()
	defer r.mu.Unlock()
	chains := [][]span{{{}}}
	for _, name := range names {
		var longer [][]span
		for _, c := range chains {
			last := c[len(c)-1]
			for _, s := range r.spans {
				if s.name == name && s.parent == last.id && (last.trace == "" || s.trace == last.trace) {
					longer = append(longer, append(c[:len(c):len(c)], s))
				}
			}
		}
		chains = longer
	}
	if len(chains) == 0 {
		return nil
	}
	return chains[0][1:]
}

// A claim that waits for a workspace is one trace, over processes and rows, from the request to the provider; a release is
// another. Nothing that people gave is in it.
func TestTrace_fromClaimToProvider(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	receiver := newOTLP(t)
	url, root := dbtest.URL(t), t.TempDir()
	servers := e2etest.StartAll(t, 2, e2etest.Options{
		PostgresURL: url, Tick: time.Hour, Env: []string{
			"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.URL, "OTEL_BSP_SCHEDULE_DELAY=100",
			"OTEL_EXPORTER_OTLP_HEADERS=authorization=s3cret-header",
		},
	})
	// The passes of the starts and of the apply are over: one that came to see the claim would serve it, in a trace of its own.
	passed := map[*e2etest.Server]int{}
	for _, s := range servers {
		eventually(t, "the pass at the start", func() bool { passed[s] = passes(t, s); return passed[s] > 0 })
	}
	apply(ctx, t, servers[0].Client, strings.Replace(poolOf3, "prebuilds: {instances: 3}", "parameters: {token: s3cret-parameter}, prebuilds: {instances: 0}", 1), root)
	for _, s := range servers {
		eventually(t, "the pass of the apply", func() bool { return passes(t, s) > passed[s] })
	}
	claimed, err := servers[0].Client.Claim(ctx, sdk.ClaimRequest{
		Template: "a", Preset: "default", Wait: "2m",
	})
	require.NoError(t, err)
	require.Equal(t, "waited", claimed.Outcome, claimed.Reason)

	request := "POST /api/v1/claims"
	eventually(t, "the whole trace", func() bool {
		return receiver.chain(request, "claim", "pass", "job create", "provider create") != nil &&
			receiver.chain(request, "claim", "pass", "job probe", "provider ready") != nil
	})
	got := receiver.chain(request, "claim")
	require.Equal(t, servers[0].Replica, got[0].replica)

	_, err = servers[1].Client.ReleaseWorkspace(ctx, claimed.Name)
	require.NoError(t, err)
	release := "POST /api/v1/workspaces/{workspace}/release"
	eventually(t, "the trace of the release", func() bool {
		return receiver.chain(release, "job drain") != nil && receiver.chain(release, "job delete", "provider delete") != nil
	})
	for _, s := range servers {
		require.Zero(t, s.Stop())
	}
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	for _, secret := range []string{"s3cret-parameter", "s3cret-header"} {
		require.NotContains(t, receiver.raw.String(), secret)
		require.NotContains(t, servers[0].Log()+servers[1].Log(), secret)
	}
}

// passes is how many a server has made, or found made by another.
func passes(t *testing.T, s *e2etest.Server) (n int) {
	t.Helper()
	for _, found := range passesTotal.FindAllStringSubmatch(metrics(t, s.URL), -1) {
		count, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		n += count
	}
	return n
}

var passesTotal = regexp.MustCompile(`(?m)^prewarm_passes_total\{outcome="(?:done|elsewhere)",trigger="\w+"\} (\d+)$`)

// Traces are off where nobody asked for them, and a collector that is away stops nothing.
func TestTrace_offOrAway(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url, root := dbtest.URL(t), t.TempDir()
	store := dbtest.OpenURL(t, url, database.Options{})
	traced := func() (n int) {
		require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*) FROM jobs WHERE traceparent IS NOT NULL").Scan(&n))
		return n
	}
	off := e2etest.Start(t, e2etest.Options{PostgresURL: url})
	apply(ctx, t, off.Client, poolOf3, root)
	eventually(t, "pool of 3", func() bool { return preset(ctx, t, off.Client, "a").Eligible == 3 })
	require.Zero(t, traced())
	require.Zero(t, off.Stop())

	away := e2etest.Start(t, e2etest.Options{
		PostgresURL: url, Env: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1/v1/traces"},
	})
	claimed, err := away.Client.Claim(ctx, sdk.ClaimRequest{Template: "a", Preset: "default", Mode: "require"})
	require.NoError(t, err)
	require.Equal(t, "hit", claimed.Outcome)
	eventually(t, "refilled", func() bool { return preset(ctx, t, away.Client, "a").Eligible == 3 })
	require.NotZero(t, traced())

	_, err = e2etest.TryStart(t, e2etest.Options{PostgresURL: url, Env: []string{"OTEL_TRACES_EXPORTER=zipkin"}})
	require.ErrorContains(t, err, "it is otlp or none")
}
