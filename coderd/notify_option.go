package coderd

import "github.com/prewarm-dev/prewarm/coderd/notify"

// Webhook is where notifications go; see ParseWebhook.
type Webhook = notify.Webhook

// ParseWebhook checks an address and the secret that requests to it are signed with. Errors repeat neither.
func ParseWebhook(address, secret string) (Webhook, error) {
	return notify.ParseWebhook(address, secret)
}
