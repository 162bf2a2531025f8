package replay_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/inbox"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/database"
)

// world is a database, a cloud, and two replicas, for all orders.
type world struct {
	*coderdtest.World
	t        *testing.T
	replicas []*coderdtest.Replica

	mu       sync.Mutex
	entities map[uuid.UUID]inbox.Entity
	forges   map[uuid.UUID]*memory
	at       map[string]*memory // by the names of workspaces: where they were registered
	dead     map[string]bool    // workspaces that the cloud was told to delete
	faults   []string
}

// pace is fast, so that orders are: what depends on time is a matter of other tests.
var pace = runners.Pace{
	Idle: 500 * time.Millisecond, Awaited: 200 * time.Millisecond, Fresh: 50 * time.Millisecond,
	Backoff: 300 * time.Millisecond, Look: 20 * time.Millisecond, Settle: 200 * time.Millisecond,
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, entities: map[uuid.UUID]inbox.Entity{}, forges: map[uuid.UUID]*memory{}, at: map[string]*memory{},
		dead: map[string]bool{},
	}
	w.World = coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider { return &cloud{p, w} })
	w.exec(judgeSQL)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range 2 {
		r := w.Start(t, coderdtest.Config{
			Name: fmt.Sprintf("replica-%d", i+1), Tick: 5 * time.Second,
			Parts: func(p *replica.Parts) { p.Directory, p.Pace = w, pace },
		})
		r.Run(r.Inbox.Run, r.Runners.Run)
		w.replicas = append(w.replicas, r)
	}
	running.Go(func() { w.inside(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// ByName, ByID and Forge: the world is the directory of all orders' entities.
func (w *world) ByName(_ context.Context, name string) (inbox.Entity, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.entities {
		if e.Name == name {
			return e, nil
		}
	}
	return inbox.Entity{}, inbox.ErrNoEntity
}

func (w *world) ByID(_ context.Context, id uuid.UUID) (inbox.Entity, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, known := w.entities[id]; known {
		return e, nil
	}
	return inbox.Entity{}, inbox.ErrNoEntity
}

func (w *world) Forge(_ context.Context, id uuid.UUID) (forge.Forge, error) {
	return w.memoryOf(id), nil
}

func (w *world) memoryOf(entity uuid.UUID) *memory {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forges[entity]
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// cloud watches what is deleted: no runner at a job, and none that a forge may still give one.
type cloud struct {
	provider.Provider
	world *world
}

func (c *cloud) Delete(ctx context.Context, ref provider.Ref) error {
	c.world.mu.Lock()
	at := c.world.at[ref.Name]
	c.world.dead[ref.Name] = true
	c.world.mu.Unlock()
	if at != nil {
		if was := at.killed(ref.Name); was != "" {
			c.world.fault("workspace %s was deleted, and its runner %s", ref.Name, was)
		}
	}
	return c.Provider.Delete(ctx, ref)
}

// inside is what runs in workspaces: each asks for its configuration, and connects.
func (w *world) inside(ctx context.Context) {
	ticker := time.NewTicker(15 * time.Millisecond)
	defer ticker.Stop()
	var asking sync.Map
	var running sync.WaitGroup
	defer running.Wait()
	for n := 0; ctx.Err() == nil; n++ {
		rows, err := w.Store.Pool.Query(ctx, `SELECT w.id, w.incarnation, r.entity_id FROM workspaces w
			JOIN forge_runners r ON r.workspace_id = w.id AND r.incarnation = w.incarnation
			WHERE w.state = 'starting' AND r.handed_out_at IS NULL`)
		for err == nil && rows.Next() {
			var id, entity uuid.UUID
			var incarnation int32
			if rows.Scan(&id, &incarnation, &entity) != nil {
				break
			}
			if _, already := asking.LoadOrStore(id, true); already {
				continue
			}
			running.Go(func() {
				defer asking.Delete(id)
				c, err := w.replicas[n%2].Runners.Configuration(ctx, id, incarnation)
				if err == nil {
					w.memoryOf(entity).connect(c.Name, c.Labels)
				}
			})
		}
		if err == nil {
			rows.Close()
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// ended is of a runner's program: its workspace says so, until it is heard.
func (w *world) ended(name string) {
	go func() {
		for ctx := w.t.Context(); ctx.Err() == nil; {
			var id uuid.UUID
			var incarnation int32
			err := w.Store.Pool.QueryRow(ctx, "SELECT id, incarnation FROM workspaces WHERE name = $1", name).Scan(&id, &incarnation)
			if err == nil {
				err = w.replicas[0].Runners.Report(ctx, id, incarnation, runners.SaidFinished)
			}
			if err == nil || errors.Is(err, runners.ErrNoRunner) {
				return
			}
		}
	}()
}

// exec writes rows in whatever order they come, so that it may have to give way to who writes them in another.
func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.Store.Pool.Exec(context.Background(), sql, args...)
	for tries := 0; database.IsDeadlock(err) && tries < 20; tries++ {
		_, err = w.Store.Pool.Exec(context.Background(), sql, args...)
	}
	require.NoError(w.t, err)
}

// list reads one column of text.
func (w *world) list(sql string, args ...any) (lines []string, err error) {
	rows, err := w.Store.Pool.Query(context.Background(), sql, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, rows.Err()
}

// judgeSQL judges each statement that makes workspaces, on the snapshot of the pass that it is of (I3): of the active version
// no more than the least that are to be idle and one for each job that waits, and never more than the preset's maximum.
const judgeSQL = `
CREATE TABLE judged (fault text, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO judged (fault)
  SELECT format('I3: preset %s of %s has %s on their way or idle, with %s wanted idle and %s jobs waiting', p.name, t.name,
                n.unclaimed, p.instances, q.queued)
  FROM presets p JOIN templates t ON t.id = p.template_id
  CROSS JOIN LATERAL (SELECT count(*) AS queued FROM forge_jobs j WHERE j.preset_id = p.id AND j.state = 'queued') q
  CROSS JOIN LATERAL (
    SELECT count(*) AS unclaimed FROM workspaces w
    WHERE w.preset_id = p.id AND w.pool_key = p.pool_key AND w.state IN ('provisioning', 'starting', 'ready')
      AND NOT EXISTS (SELECT FROM intents i WHERE i.workspace_id = w.id AND i.incarnation = w.incarnation)) n
  WHERE p.id IN (SELECT m.preset_id FROM made m) AND n.unclaimed > p.instances + q.queued;
  INSERT INTO judged (fault)
  SELECT format('S4: preset %s of %s has %s runners, and %s are the most', p.name, t.name, n.live, p.runner_maximum)
  FROM presets p JOIN templates t ON t.id = p.template_id
  CROSS JOIN LATERAL (
    SELECT count(*) AS live FROM workspaces w WHERE w.preset_id = p.id AND w.state <> 'deleted') n
  WHERE p.id IN (SELECT m.preset_id FROM made m) AND n.live > p.runner_maximum;
  RETURN NULL;
END $$;
CREATE TRIGGER judge AFTER INSERT ON workspaces REFERENCING NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION judge();
`
