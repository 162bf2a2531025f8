package inbox

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
)

// receiver serves the webhooks of an entity.
func receiver(t *testing.T, s *Service, entity string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		if _, err := s.Accept(r.Context(), entity, r.Header, body); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Half of the webhooks of a forge are lost, others come twice or late. By asking the forge, over HTTP, the jobs here come to
// be as they are there.
func TestMissed_overHTTP(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"acme", "tea"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.service("a")
			entity, err := w.directory.ByName(t.Context(), name)
			require.NoError(t, err)
			there, err := forgetest.Start(t.Context(), forgetest.Options{
				Gitea: name == "tea", Token: "secret-token", Seed: 3,
				Faults: forgetest.Faults{Lose: 0.5, Repeat: 0.3, Delay: 0.3, DelayBy: 20 * time.Millisecond},
			})
			require.NoError(t, err)
			t.Cleanup(there.Close)
			client, err := entity.Kind.Connect(forge.Connection{
				URL: there.API, Scope: entity.Scope, Path: entity.Path, Token: "secret-token",
			})
			require.NoError(t, err)
			w.directory.forges[entity.ID] = client
			hook, err := client.InstallHook(t.Context(), receiver(t, s, name), secret, 0)
			require.NoError(t, err)
			w.exec("UPDATE forge_entities SET hook_id = $1", hook.ID)

			work := forgetest.Work{Repository: "acme/shop", Labels: []string{"linux"}}
			if name == "tea" {
				work.Repository = entity.Path
			}
			var open, over []int64
			for i := range 40 {
				ids := there.Queue(work)
				if i%4 == 0 {
					over = append(over, ids...)
				} else {
					open = append(open, ids...)
				}
			}
			for _, id := range over {
				there.Cancel(id)
			}
			states := func(state string, ids []int64) int {
				return w.count("SELECT count(*) FROM forge_jobs WHERE state = $1::text::forge_job_state AND job_id = ANY ($2)", state, ids)
			}
			require.NoError(t, s.Drain(t.Context()))
			require.Less(t, states("queued", open), len(open), "half of it was lost")
			require.Eventually(t, func() bool {
				w.age()
				assert.NoError(t, s.Missed(t.Context(), entity.ID))
				assert.NoError(t, s.Drain(t.Context()))
				unheard := 0 // what was over before a Gitea said that there was any
				if name == "tea" {
					unheard = len(over) - w.count("SELECT count(*) FROM forge_jobs WHERE job_id = ANY ($1)", over)
				}
				return states("queued", open) == len(open) && states("completed", over) == len(over)-unheard &&
					states("queued", over) == 0
			}, time.Minute, 10*time.Millisecond)
			require.Equal(t, len(open), w.count("SELECT count(*) FROM forge_jobs WHERE preset_id IS NOT NULL AND state = 'queued'"))
		})
	}
}
