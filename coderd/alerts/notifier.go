package alerts

import (
	"context"
	"math/rand/v2"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/metric"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/alertsdb"
)

// Kind is what a notification is about.
type Kind string

const (
	HardLimit    Kind = "hard-limit"   // creation of a preset stopped (C8)
	Unattainable Kind = "unattainable" // autosize does not reach a preset's target: its maximum is too low, or claims miss
	Stale        Kind = "stale"        // no full pass succeeded for too long
	// BreakerOpen: nothing is created or deleted at a provider, since its word cannot be taken (S3).
	BreakerOpen Kind = "breaker-open"
	// ClaimedMissing: a provider has nothing any more of a claimed workspace, of which nothing else is done (I2).
	ClaimedMissing Kind = "claimed-missing"
	// ClaimedRefused: a provider would not create or start now what is claimed there, and keeps running.
	ClaimedRefused Kind = "claimed-refused"

	Test Kind = "test" // somebody wants to see whether it works
)

const (
	poll     = 2 * time.Second  // bounds how long what another replica noticed lies unseen
	leaseFor = 30 * time.Second // of one attempt; longer than it can take
	keep     = 24 * time.Hour   // what could not be told by then is given up
)

// Episode is something that is so, until it is not.
type Episode struct {
	Subject        string // what it is about; one at a time for each kind and subject
	OrganizationID uuid.UUID
	Template       string
	Preset         string
	Detail         string // for people
}

// NotifierOptions are those of a Notifier.
type NotifierOptions struct {
	Store        *database.Store
	Clock        quartz.Clock
	Log          slog.Logger
	Registerer   prometheus.Registerer
	Webhook      Webhook // zero: episodes are kept and nobody is told
	Installation uuid.UUID
	NewID        func() uuid.UUID
}

// Notifier keeps episodes and delivers them.
type Notifier struct {
	NotifierOptions
	wake      hints.Bell
	delivered *prometheus.CounterVec
}

// NewNotifier returns a Notifier; nothing is delivered before Run.
func NewNotifier(o NotifierOptions) *Notifier {
	o.Log = o.Log.Named("notify")
	n := &Notifier{NotifierOptions: o, wake: hints.NewBell()}
	n.delivered = metric.New(o.Registerer).Counters("prewarm_notifications_total",
		"Attempts of this replica to deliver a notification, by kind and result (delivered, failed, abandoned).", "kind", "result")
	return n
}

// Open says that an episode is under way. It returns the notification's id, and whether nobody knew of the episode.
func (n *Notifier) Open(ctx context.Context, kind Kind, e Episode) (uuid.UUID, bool, error) {
	id := n.NewID()
	rows, err := alertsdb.New(n.Store).OpenEpisode(ctx, alertsdb.OpenEpisodeParams{
		ID: id, Kind: string(kind), Subject: e.Subject, Template: e.Template, Preset: e.Preset, Detail: e.Detail,
		OrganizationID: uuid.NullUUID{UUID: e.OrganizationID, Valid: e.OrganizationID != uuid.Nil},
	})
	if err != nil {
		return id, false, xerrors.Errorf("record notification: %w", err)
	}
	if rows > 0 {
		n.wake.Ring()
	}
	return id, rows > 0, nil
}

// End ends the episodes of a kind whose subject is not among those that still are. It returns the ended subjects.
func (n *Notifier) End(ctx context.Context, kind Kind, still []string) ([]string, error) {
	if still == nil {
		still = []string{}
	}
	rows, err := alertsdb.New(n.Store).EndEpisodes(ctx, alertsdb.EndEpisodesParams{Kind: string(kind), Still: still})
	if err != nil {
		return nil, xerrors.Errorf("end episodes: %w", err)
	}
	return lists.Of(rows, func(r alertsdb.EndEpisodesRow) string { return r.Subject }), nil
}

// Run delivers what is due until ctx ends.
func (n *Notifier) Run(ctx context.Context) {
	if n.Webhook.IsZero() {
		return
	}
	lease.Loop{
		Clock: n.Clock, Log: n.Log, What: "deliver notifications", Tags: []string{"notify", "poll"}, Wake: n.wake,
		Pause: func() time.Duration { return poll },
	}.Run(ctx, n.deliverDue)
}

// deliverDue makes one attempt for each that is due.
func (n *Notifier) deliverDue(ctx context.Context) error {
	given, err := alertsdb.New(n.Store).AbandonNotifications(ctx, keep.Seconds())
	if err != nil {
		return xerrors.Errorf("give up notifications: %w", err)
	}
	for _, g := range given {
		n.delivered.WithLabelValues(g.Kind, "abandoned").Inc()
		n.Log.Error(ctx, "notification given up", slog.F("notification_id", g.ID), slog.F("kind", g.Kind),
			slog.F("last_error", g.LastError))
	}
	for {
		due, err := alertsdb.New(n.Store).LeaseNotifications(ctx, alertsdb.LeaseNotificationsParams{
			KeepS: keep.Seconds(), Batch: 1, LeaseS: leaseFor.Seconds(),
		})
		if err != nil {
			return xerrors.Errorf("lease notifications: %w", err)
		}
		if len(due) == 0 {
			return nil
		}
		if err := n.deliver(ctx, due[0]); err != nil {
			return err
		}
	}
}

// deliver makes one attempt and records what came of it.
func (n *Notifier) deliver(ctx context.Context, row database.Notification) error {
	cause := n.Webhook.send(ctx, n.Clock, n.Wire(row))
	fields := []any{
		slog.F("notification_id", row.ID), slog.F("kind", row.Kind), slog.F("attempt", row.Attempts),
		slog.F("to", n.Webhook.String()),
	}
	if cause == nil {
		n.delivered.WithLabelValues(row.Kind, "delivered").Inc()
		n.Log.Info(ctx, "notification sent", fields...)
		_, err := alertsdb.New(n.Store).NotificationDelivered(context.WithoutCancel(ctx), alertsdb.NotificationDeliveredParams{
			ID: row.ID, Attempts: row.Attempts,
		})
		if err != nil {
			return xerrors.Errorf("record delivery: %w", err)
		}
		return nil
	}
	if ctx.Err() != nil { // this replica stops: the lease ends by itself
		return nil //nolint:nilerr // what the attempt failed of is the stop
	}
	pause := lease.Backoff(row.Attempts-1, rand.N[time.Duration])
	n.delivered.WithLabelValues(row.Kind, "failed").Inc()
	n.Log.Warn(ctx, "notification failed; it will be tried again",
		append(fields, slog.F("in", pause.String()), slog.Error(cause))...)
	_, err := alertsdb.New(n.Store).NotificationFailed(ctx, alertsdb.NotificationFailedParams{
		ID: row.ID, Attempts: row.Attempts, LastError: cause.Error(), BackoffS: pause.Seconds(),
	})
	if err != nil {
		return xerrors.Errorf("record failed delivery: %w", err)
	}
	return nil
}

// Wire is a notification as it is sent and listed.
func (n *Notifier) Wire(row database.Notification) sdk.Notification {
	return sdk.Notification{
		ID: row.ID, Kind: row.Kind, Installation: n.Installation, Template: row.Template, Preset: row.Preset,
		Detail: row.Detail, At: row.CreatedAt,
	}
}
