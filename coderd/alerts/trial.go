package alerts

import (
	"context"
	"errors"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/alertsdb"
)

// ErrNoWebhook: this replica was not told where notifications go.
var ErrNoWebhook = errors.New("no webhook is configured: start the server with --notify-url and --notify-secret-file")

const (
	testFor   = 15 * time.Second
	testEvery = 100 * time.Millisecond
)

// Test sends a notification the way that all go, and waits for the outcome of its first attempts. The row that it returns
// is delivered, or still pending with the last error.
func (n *Notifier) Test(ctx context.Context, by string) (database.Notification, error) {
	if n.Webhook.IsZero() {
		return database.Notification{}, ErrNoWebhook
	}
	ctx, cancel := context.WithTimeout(ctx, testFor)
	defer cancel()
	subject := n.NewID().String()
	id, _, err := n.Open(ctx, Test, Episode{Subject: subject, Detail: "a test, asked for by " + by})
	if err != nil {
		return database.Notification{}, err
	}
	if err := alertsdb.New(n.Store).EndEpisode(ctx, id); err != nil {
		return database.Notification{}, xerrors.Errorf("end episode: %w", err)
	}
	ticker := n.Clock.NewTicker(testEvery, "notify", "test")
	defer ticker.Stop()
	var row database.Notification
	for {
		now, err := alertsdb.New(n.Store).NotificationByID(ctx, id)
		switch {
		case err != nil && ctx.Err() == nil:
			return row, xerrors.Errorf("read notification: %w", err)
		case err == nil:
			row = now
		}
		if err == nil && (row.State != database.NotificationStatePending || row.LastError != "") {
			return row, nil
		}
		select {
		case <-ctx.Done():
			return row, nil
		case <-ticker.C:
		}
	}
}
