package api

import (
	"context"
	"net/http"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const maxNotifications = 100

func (s *server) registerNotifications() {
	answer(s, operation{
		id: "list-notifications", method: http.MethodGet, path: "/notifications", action: auth.ActReadNotifications,
		tag: "notifications", summary: "List notifications sent by webhook, the newest first",
	}, s.listNotifications)
	answer(s, operation{
		id: "test-notification", method: http.MethodPost, path: "/notifications/test", action: auth.ActTestNotification,
		tag: "notifications", summary: "Send a notification, to see whether it arrives",
		description: "Goes the way of every notification, and answers how the first attempt ended.",
	}, s.testNotification)
}

func (s *server) listNotifications(ctx context.Context, who auth.Identity, _ *none) ([]sdk.NotificationStatus, error) {
	rows, err := viewsdb.New(s.Store).Notifications(ctx, viewsdb.NotificationsParams{
		OrganizationID: who.OrganizationID, MaxRows: maxNotifications,
	})
	if err != nil {
		return nil, xerrors.Errorf("list notifications: %w", err)
	}
	return lists.Of(rows, s.notificationOf), nil
}

func (s *server) testNotification(ctx context.Context, who auth.Identity, _ *none) (sdk.NotificationStatus, error) {
	if s.Notifier.Webhook.IsZero() {
		return sdk.NotificationStatus{}, auth.Refuse(auth.ErrConflict, "%s", alerts.ErrNoWebhook.Error())
	}
	err := auth.Record(ctx, s.Store, auth.Entry{
		ActorID: who.UserID, Action: "notification.test", TargetType: "notification", TargetID: "test", Source: who.Source,
	})
	if err != nil {
		return sdk.NotificationStatus{}, err
	}
	row, err := s.Notifier.Test(ctx, who.User)
	if err != nil {
		return sdk.NotificationStatus{}, xerrors.Errorf("test notifications: %w", err)
	}
	return s.notificationOf(row), nil
}

func (s *server) notificationOf(row database.Notification) sdk.NotificationStatus {
	return sdk.NotificationStatus{
		Notification: s.Notifier.Wire(row), State: string(row.State), Attempts: int(row.Attempts),
		LastError: row.LastError, DeliveredAt: row.DeliveredAt, EndedAt: row.EndedAt,
	}
}
