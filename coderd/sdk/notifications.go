package sdk

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Notification is what a webhook is sent: one for each episode.
type Notification struct {
	ID           uuid.UUID `json:"id"`
	Kind         string    `json:"kind" doc:"hard-limit, stale, breaker-open, claimed-missing, claimed-refused, unattainable or test"`
	Installation uuid.UUID `json:"installation"`
	Template     string    `json:"template,omitempty"`
	Preset       string    `json:"preset,omitempty"`
	Detail       string    `json:"detail" doc:"for people"`
	At           time.Time `json:"at"`
}

// NotificationStatus is a notification and what became of it.
type NotificationStatus struct {
	Notification
	State       string     `json:"state" enum:"pending,delivered,abandoned"`
	Attempts    int        `json:"attempts"`
	LastError   string     `json:"last_error,omitempty"`
	DeliveredAt *time.Time `json:"delivered_at,omitempty"`
	EndedAt     *time.Time `json:"ended_at,omitempty" doc:"since when it is no longer so"`
}

// Notifications lists what people were told, the newest first.
func (c *Client) Notifications(ctx context.Context) ([]NotificationStatus, error) {
	return get[[]NotificationStatus](ctx, c, "notifications")
}

// TestNotification sends a notification and returns what became of its first attempt.
func (c *Client) TestNotification(ctx context.Context) (NotificationStatus, error) {
	return ask[NotificationStatus](ctx, c, post("notifications", "test").with(struct{}{}))
}
