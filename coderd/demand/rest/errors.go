package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// pause is for how long to keep off where the forge does not say.
const pause = time.Minute

// wrong makes of an error of the client one of the forge's, with the forge's own text. No request's body is ever in it, nor
// the credential.
func wrong(err error, now time.Time) error {
	if err == nil {
		return nil
	}
	if limited := new(forge.RateLimited); errors.As(err, &limited) {
		return limited
	}
	resp, text := answer(err) //nolint:bodyclose // it is read and closed
	if _, unreached := errors.AsType[*url.Error](err); resp == nil && unreached && !errors.Is(err, context.Canceled) {
		return &forge.Unwell{Err: err}
	}
	if resp == nil {
		return err
	}
	if until, is := limitedUntil(resp, now); is {
		return &forge.RateLimited{Until: until}
	}
	if _, secondary := errors.AsType[*github.AbuseRateLimitError](err); secondary {
		return &forge.RateLimited{Until: now.Add(pause)}
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return xerrors.Errorf("%s: %w", text, forge.ErrRefused)
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusGone:
		return xerrors.Errorf("%s: %w", text, forge.ErrNotFound)
	case resp.StatusCode == http.StatusMethodNotAllowed:
		return xerrors.Errorf("%s: %w", text, forge.ErrUnsupported)
	case resp.StatusCode == http.StatusConflict,
		resp.StatusCode == http.StatusUnprocessableEntity && strings.Contains(strings.ToLower(text), "already exists"):
		return xerrors.Errorf("%s: %w", text, forge.ErrConflict)
	}
	said := &answered{status: resp.StatusCode, text: text}
	if resp.StatusCode >= http.StatusInternalServerError {
		return &forge.Unwell{Err: said}
	}
	return said
}

// Unprocessable says whether the answer was 422.
func Unprocessable(err error) bool {
	var e *answered
	return errors.As(err, &e) && e.status == http.StatusUnprocessableEntity
}

// Rejected says whether the answer was of a request that is not as it should be.
func Rejected(err error) bool {
	var e *answered
	return errors.As(err, &e) && e.status >= 400 && e.status < 500
}

// answered is what the forge said, where it is none of the errors of package forge.
type answered struct {
	status int
	text   string
}

func (e *answered) Error() string { return e.text }

// answer is the response that an error is of, and what it says in words.
func answer(err error) (*http.Response, string) {
	if e, is := errors.AsType[*github.ErrorResponse](err); is {
		return e.Response, words(e.Response, e)
	}
	if e, is := errors.AsType[*github.RateLimitError](err); is {
		return e.Response, e.Message
	}
	if e, is := errors.AsType[*github.AbuseRateLimitError](err); is {
		return e.Response, e.Message
	}
	if e, is := errors.AsType[*github.TwoFactorAuthError](err); is {
		return e.Response, e.Message
	}
	// The App's token could not be had. The library leaves the answer open to be read.
	if e, is := errors.AsType[*ghinstallation.HTTPError](err); is && e.Response != nil {
		_ = e.Response.Body.Close()
		return e.Response, fmt.Sprintf("get token of installation %d: status %d", e.InstallationID, e.Response.StatusCode)
	}
	return nil, ""
}

// words is the forge's text with what it lists, after what was asked for.
func words(resp *http.Response, e *github.ErrorResponse) string {
	said := []string{cmp.Or(e.Message, http.StatusText(resp.StatusCode))}
	for _, one := range e.Errors {
		if text := cmp.Or(one.Message, strings.TrimSpace(one.Resource+" "+one.Field+" "+one.Code)); text != "" {
			said = append(said, text)
		}
	}
	asked := ""
	if resp.Request != nil {
		asked = resp.Request.Method + " " + resp.Request.URL.Path + ": "
	}
	return fmt.Sprintf("%sstatus %d: %s", asked, resp.StatusCode, strings.Join(said, "; "))
}

// limitedUntil says whether the answer is that there were too many requests, and when the next is welcome.
func limitedUntil(resp *http.Response, now time.Time) (time.Time, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusForbidden {
		return time.Time{}, false
	}
	if after := resp.Header.Get("Retry-After"); after != "" {
		if seconds, err := strconv.Atoi(after); err == nil && seconds >= 0 {
			return now.Add(time.Duration(seconds) * time.Second), true
		}
		if at, err := http.ParseTime(after); err == nil {
			return at, true
		}
	}
	if resp.Header.Get("X-RateLimit-Remaining") == "0" {
		if reset := resetOf(resp); reset.After(now) {
			return reset, true
		}
		return now.Add(pause), true
	}
	return now.Add(pause), resp.StatusCode == http.StatusTooManyRequests
}

func resetOf(resp *http.Response) time.Time {
	seconds, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// limits is what was heard of the limits on requests, by the account that they are counted on.
type limits struct {
	mu    sync.Mutex
	rates map[string]forge.Rate
	until map[string]time.Time // nothing is to be asked before
}

// heard takes in what an answer says of them. Of answers that overtake one another the one with the later reset, then the one
// with less remaining, is the truth.
func (l *limits) heard(class string, resp *http.Response, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rates == nil {
		l.rates, l.until = map[string]forge.Rate{}, map[string]time.Time{}
	}
	if limit, err := strconv.Atoi(resp.Header.Get("X-RateLimit-Limit")); err == nil && limit > 0 {
		remaining, _ := strconv.Atoi(resp.Header.Get("X-RateLimit-Remaining"))
		next, before := forge.Rate{Limit: limit, Remaining: remaining, ResetAt: resetOf(resp)}, l.rates[class]
		if before.Limit == 0 || next.ResetAt.After(before.ResetAt) ||
			(next.ResetAt.Equal(before.ResetAt) && next.Remaining < before.Remaining) {
			l.rates[class] = next
		}
	}
	if until, is := limitedUntil(resp, now); is && until.After(l.until[class]) {
		l.until[class] = until
	}
}

// blocked is a *forge.RateLimited while nothing is to be asked.
func (l *limits) blocked(class string, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := l.until[class]; until.After(now) {
		return &forge.RateLimited{Until: until}
	}
	if r := l.rates[class]; r.Limit > 0 && r.Remaining == 0 && r.ResetAt.After(now) {
		return &forge.RateLimited{Until: r.ResetAt}
	}
	return nil
}

func (l *limits) rate(class string) forge.Rate {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rates[class]
}
