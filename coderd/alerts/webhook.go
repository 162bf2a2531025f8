package alerts

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	// answerWithin bounds one request.
	answerWithin = 10 * time.Second
	minSecret    = 16 // bytes
)

// Webhook is where notifications go. The zero value is none. It prints as its host only.
type Webhook struct {
	url    *url.URL
	secret string
}

// ParseWebhook checks an address and the secret that requests to it are signed with. Errors repeat neither.
func ParseWebhook(address, secret string) (Webhook, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return Webhook{}, xerrors.New("the address of the webhook must look like https://example.com/hooks/prewarm")
	}
	if len(secret) < minSecret {
		return Webhook{}, xerrors.Errorf("the secret of the webhook has %d bytes: at least %d are needed", len(secret), minSecret)
	}
	return Webhook{u, secret}, nil
}

// IsZero says whether there is none.
func (w Webhook) IsZero() bool { return w.url == nil }

// String is what may be shown: where it goes, without what may be secret in it.
func (w Webhook) String() string {
	if w.url == nil {
		return "none"
	}
	return w.url.Scheme + "://" + w.url.Host
}

// GoString is what %#v prints.
func (w Webhook) GoString() string { return w.String() }

// Signature is what a request with that time-stamp and body carries.
func (w Webhook) Signature(timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(w.secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// client follows no redirect, which would send what is signed to somebody else.
var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// send makes one attempt. Its error is fit to be shown.
func (w Webhook) send(ctx context.Context, clock quartz.Clock, n sdk.Notification) error {
	body, err := json.Marshal(n)
	if err != nil {
		return xerrors.Errorf("encode notification: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader(body))
	if err != nil {
		return xerrors.New("make request: the address is wrong")
	}
	timestamp := strconv.FormatInt(clock.Now("notify", "send").Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "prewarm")
	req.Header.Set("X-Prewarm-Event", n.Kind)
	req.Header.Set("X-Prewarm-Delivery", n.ID.String())
	req.Header.Set("X-Prewarm-Timestamp", timestamp)
	req.Header.Set("X-Prewarm-Signature", w.Signature(timestamp, body))
	res, err := client.Do(req)
	if err != nil {
		return xerrors.Errorf("send to %s: %w", w, withoutURL(err))
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10) // so that the connection can be used again
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return xerrors.Errorf("%s answered with status %d", w, res.StatusCode)
	}
	return nil
}

// withoutURL takes the address out of an error of net/http.
func withoutURL(err error) error {
	if u, is := errors.AsType[*url.Error](err); is {
		return u.Err
	}
	return err
}
