package coderd

import "github.com/prewarm-dev/prewarm/coderd/alerts"

// Webhook is where notifications go; see ParseWebhook.
type Webhook = alerts.Webhook

// ParseWebhook checks an address and the secret that requests to it are signed with. Errors repeat neither.
func ParseWebhook(address, secret string) (Webhook, error) {
	return alerts.ParseWebhook(address, secret)
}
