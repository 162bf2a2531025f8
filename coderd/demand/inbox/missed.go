package inbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inboxdb"
)

// What one round asks of a forge at most, so that a limit of 5,000 requests an hour has room for more than this.
const (
	mostFetched      = 50 // bodies of deliveries
	mostRepositories = 5  // that are listed; the others have their turn in the rounds after
	mostAsked        = 20 // jobs
	quiet            = 2 * time.Minute
	// reserve is the share of the forge's rate limit that is left to what can't wait: registering and unregistering.
	reserve = 0.2
)

// Missed asks an entity's forge for what no webhook has told: deliveries that did not arrive, jobs that are open there, and
// how jobs fare that are open here and were not heard of. It is called about once a minute, by one replica. An error is the
// forge's; what was learnt until then is stored.
func (s *Service) Missed(ctx context.Context, entityID uuid.UUID) error {
	if database.InTransaction(ctx) {
		return xerrors.New("ask forge for what was missed: inside of a transaction")
	}
	entity, err := s.Directory.ByID(ctx, entityID)
	if err != nil {
		return xerrors.Errorf("find entity: %w", err)
	}
	client, err := s.Directory.Forge(ctx, entityID)
	if err != nil {
		return err //nolint:wrapcheck // it says what it did
	}
	r := &round{Service: s, entity: entity, forge: client, listed: map[string]bool{}}
	for _, step := range []func(context.Context) error{r.deliveries, r.openJobs, r.quietJobs} {
		if rate := client.Rate(); rate.Limit > 0 && float64(rate.Remaining) < reserve*float64(rate.Limit) {
			return nil // of its own accord, before the forge has to say so
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// round is one time that a forge is asked.
type round struct {
	*Service
	entity Entity
	forge  forge.Forge
	listed map[string]bool // repositories whose open jobs could be listed
}

// deliveries fetches those that the webhook made, or tried to, and that are not in the inbox.
func (r *round) deliveries(ctx context.Context) error {
	q := inboxdb.New(r.Store)
	p, err := q.DeliveryProgress(ctx, r.entity.ID)
	switch {
	case database.NoRows(err) || (err == nil && p.HookID == nil):
		return nil // a webhook that a person made is not known by its id
	case err != nil:
		return xerrors.Errorf("read progress of deliveries: %w", err)
	}
	sent, err := r.forge.Deliveries(ctx, *p.HookID, p.Since)
	switch {
	case errors.Is(err, forge.ErrUnsupported):
		return nil
	case err != nil:
		return err //nolint:wrapcheck // it says what it did
	}
	missing, err := r.missing(ctx, sent)
	if err != nil {
		return err
	}
	through := p.Now
	for i, d := range missing {
		if i == mostFetched {
			through = d.At // the next round goes on from there
			break
		}
		body, err := r.forge.DeliveryBody(ctx, *p.HookID, d.ID)
		if errors.Is(err, forge.ErrNotFound) {
			continue // it is too old by now
		}
		if err != nil {
			return err //nolint:wrapcheck // it says what it did
		}
		n, err := q.InsertDelivery(ctx, inboxdb.InsertDeliveryParams{
			EntityID: r.entity.ID, DeliveryID: d.GUID, Event: d.Event, Body: body, Fetched: true,
		})
		if err != nil {
			return xerrors.Errorf("store delivery: %w", err)
		}
		r.metrics.missed.WithLabelValues("delivery").Add(float64(n))
		r.Wake()
	}
	err = q.StoreDeliveryProgress(ctx, inboxdb.StoreDeliveryProgressParams{EntityID: r.entity.ID, Through: through})
	if err != nil {
		return xerrors.Errorf("store progress of deliveries: %w", err)
	}
	return nil
}

// missing are those that are not in the inbox, oldest first, each once.
func (r *round) missing(ctx context.Context, sent []forge.Sent) (missing []forge.Sent, err error) {
	ids := lists.Of(sent, func(d forge.Sent) string { return d.GUID })
	known, err := inboxdb.New(r.Store).DeliveriesKnown(ctx, inboxdb.DeliveriesKnownParams{EntityID: r.entity.ID, DeliveryIds: ids})
	if err != nil {
		return nil, xerrors.Errorf("read known deliveries: %w", err)
	}
	have := lists.Keyed(known, func(id string) (string, bool) { return id, true })
	slices.SortStableFunc(sent, func(a, b forge.Sent) int { return a.At.Compare(b.At) })
	for _, d := range sent {
		if !have[d.GUID] && plain(d.GUID, 200) && plain(d.Event, 100) {
			have[d.GUID] = true
			missing = append(missing, d)
		}
	}
	return missing, nil
}

// openJobs lists what is queued or under way, of a few repositories at a time.
func (r *round) openJobs(ctx context.Context) error {
	repositories := []string{r.entity.Path}
	now, err := database.New(r.Store).GetNow(ctx)
	if err != nil {
		return xerrors.Errorf("read the time: %w", err)
	}
	if r.entity.Scope != forge.Repository {
		all, err := inboxdb.New(r.Store).ForgeRepositories(ctx, r.entity.ID)
		if err != nil {
			return xerrors.Errorf("read repositories: %w", err)
		}
		repositories = turn(all, now)
	}
	jobs, err := r.forge.OpenJobs(ctx, repositories)
	switch {
	case errors.Is(err, forge.ErrUnsupported), errors.Is(err, forge.ErrNotFound): // one of them is gone, or out of reach
		return nil
	case err != nil:
		return err //nolint:wrapcheck // it says what it did
	}
	for _, name := range repositories {
		r.listed[name] = true
	}
	if err := r.learn(ctx, jobs); err != nil {
		return err
	}
	err = inboxdb.New(r.Store).StoreJobsListed(ctx, inboxdb.StoreJobsListedParams{EntityID: r.entity.ID, ListedAt: now})
	if err != nil {
		return xerrors.Errorf("store progress of jobs: %w", err)
	}
	return nil
}

// turn is who is listed now: by the minute, so that all have their turn without anybody keeping count.
func turn(repositories []string, now time.Time) []string {
	n := len(repositories)
	if n <= mostRepositories {
		return repositories
	}
	turns := (n + mostRepositories - 1) / mostRepositories
	from := int(now.Unix()/60) % turns * mostRepositories
	return repositories[from:min(from+mostRepositories, n)]
}

// quietJobs asks after jobs that are open here, and that nothing was heard of.
func (r *round) quietJobs(ctx context.Context) error {
	rows, err := inboxdb.New(r.Store).ForgeJobsToAsk(ctx, inboxdb.ForgeJobsToAskParams{
		EntityID: r.entity.ID, QuietS: quiet.Seconds(), MaxJobs: mostAsked,
	})
	if err != nil {
		return xerrors.Errorf("read quiet jobs: %w", err)
	}
	var asked []uuid.UUID
	var jobs []forge.Job
	var failed error
	for _, row := range rows {
		job, err := r.ask(ctx, row)
		if err != nil {
			failed = err
			break
		}
		asked = append(asked, row.ID)
		if job != nil {
			jobs = append(jobs, *job)
		}
	}
	if err := r.learn(ctx, jobs); err != nil {
		return errors.Join(failed, err)
	}
	if err := inboxdb.New(r.Store).StoreAsked(ctx, asked); err != nil {
		return errors.Join(failed, xerrors.Errorf("note who was asked after: %w", err))
	}
	return failed
}

// ask asks after one job. Nil: nothing can be said of it.
func (r *round) ask(ctx context.Context, row inboxdb.ForgeJobsToAskRow) (*forge.Job, error) {
	job, err := r.forge.Job(ctx, row.Repository, row.JobID)
	if err == nil {
		return &job, nil
	}
	if !errors.Is(err, forge.ErrNotFound) {
		return nil, err //nolint:wrapcheck // it says what it did
	}
	// A forge also says so of what the credential may not see any more: then nothing is gone.
	if !r.listed[row.Repository] && !row.Lost {
		_, err := r.forge.OpenJobs(ctx, []string{row.Repository})
		switch {
		case errors.Is(err, forge.ErrNotFound), errors.Is(err, forge.ErrUnsupported):
			return nil, nil //nolint:nilnil // as said
		case err != nil:
			return nil, err //nolint:wrapcheck // it says what it did
		}
		r.listed[row.Repository] = true
	}
	r.metrics.missed.WithLabelValues("gone").Inc()
	return &forge.Job{
		ID: row.JobID, Attempt: int(row.Attempt), State: forge.Completed, Conclusion: gone, Repository: row.Repository,
	}, nil
}

// learn merges what the forge said when it was asked, and matches.
func (r *round) learn(ctx context.Context, jobs []forge.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	tolds := lists.Of(jobs, func(j forge.Job) told { return told{entity: r.entity, job: clean(j)} })
	var freed []uuid.UUID
	err := r.Store.InTx(ctx, database.TxOptions{Label: "merge listed jobs"},
		func(ctx context.Context, tx pgx.Tx) (err error) {
			freed, err = r.merge(ctx, tx, tolds)
			return err
		})
	if err != nil {
		return err //nolint:wrapcheck // InTx says what it was
	}
	r.metrics.missed.WithLabelValues("job").Add(float64(len(jobs)))
	r.Hints.Settle()
	r.nudge(ctx, freed)
	return r.Match(ctx)
}
