package gitea

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

const (
	// timeout bounds each request, with the reading of its answer.
	timeout = 30 * time.Second
	// pause is for how long to keep off where the forge does not say.
	pause = time.Minute
	// maximumAnswer is as much as is read of one answer, in bytes.
	maximumAnswer = 32 << 20
)

// client is one entity of Gitea.
type client struct {
	http  *http.Client
	api   string // https://host/api/v1
	host  string // that the token is for: a redirect elsewhere goes without
	token string
	scope forge.Scope
	root  string // of the API's paths of the entity: /orgs/acme
	page  string // where runners register: the instance
	now   func() time.Time
}

// pathOf is what a path is made of: as names of owners and repositories are.
var pathOf = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// Connect makes a client. Requests go through the proxy of the environment.
func (kind) Connect(c forge.Connection) (forge.Forge, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") {
		return nil, xerrors.Errorf("the URL %q is none of a Gitea, which is like https://gitea.example", c.URL)
	}
	if c.App != nil {
		return nil, xerrors.New("Gitea has no Apps: connect with a token")
	}
	if c.Token == "" {
		return nil, xerrors.New("there is no token to connect with")
	}
	root, err := rootOf(c.Scope, c.Path)
	if err != nil {
		return nil, err
	}
	transport, err := forge.Transport(c.CABundle)
	if err != nil {
		return nil, err
	}
	page := strings.TrimSuffix(strings.TrimSuffix(c.URL, "/"), "/api/v1")
	one := &client{
		http: &http.Client{Transport: transport, Timeout: timeout}, api: page + "/api/v1", host: base.Host, token: c.Token,
		scope: c.Scope, root: root, page: page, now: c.Now,
	}
	if one.now == nil {
		one.now = func() time.Time { return quartz.NewReal().Now() }
	}
	one.http.CheckRedirect = one.redirect
	return one, nil
}

// rootOf is where the API has the entity.
func rootOf(scope forge.Scope, path string) (string, error) {
	if scope == forge.Enterprise {
		return "/admin", nil
	}
	parts := strings.Split(path, "/")
	for _, part := range parts {
		if !pathOf.MatchString(part) || part == "." || part == ".." {
			return "", xerrors.Errorf("the path %q is none of Gitea", path)
		}
	}
	switch {
	case scope == forge.Repository && len(parts) == 2:
		return "/repos/" + path, nil
	case scope == forge.Organization && len(parts) == 1:
		return "/orgs/" + path, nil
	}
	return "", xerrors.Errorf("the path %q is none of a Gitea %s", path, scope)
}

func (c *client) redirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 5 {
		return xerrors.New("the forge redirects in circles")
	}
	if req.URL.Host != c.host {
		req.Header.Del("Authorization")
	}
	return nil
}

// do sends one request and reads its answer, with the errors of package forge. No error has the token or a request's body.
func (c *client) do(ctx context.Context, method, path string, query url.Values, body, into any) error {
	req, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return xerrors.Errorf("ask forge: %w", err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maximumAnswer))
	if err != nil {
		return xerrors.Errorf("read answer of %s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		return c.wrong(resp, fmt.Sprintf("%s %s: status %d: %s", method, path, resp.StatusCode,
			cmp.Or(message(said), http.StatusText(resp.StatusCode))))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(said, into); err != nil {
		return xerrors.Errorf("parse answer of %s %s: %w", method, path, err)
	}
	return nil
}

func (c *client) request(ctx context.Context, method, path string, query url.Values, body any) (*http.Request, error) {
	address := c.api + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, xerrors.Errorf("encode request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, xerrors.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "token "+c.token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "prewarm")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// wrong makes of an answer one of the forge's errors, with its own text.
func (c *client) wrong(resp *http.Response, text string) error {
	switch resp.StatusCode {
	case http.StatusTooManyRequests: // Gitea has no limit of its own, but what stands before it may
		return &forge.RateLimited{Until: c.retryAt(resp)}
	case http.StatusUnauthorized, http.StatusForbidden:
		return xerrors.Errorf("%s: %w", text, forge.ErrRefused)
	case http.StatusNotFound, http.StatusGone:
		return xerrors.Errorf("%s: %w", text, forge.ErrNotFound)
	case http.StatusMethodNotAllowed:
		return xerrors.Errorf("%s: %w", text, forge.ErrUnsupported)
	case http.StatusConflict:
		return xerrors.Errorf("%s: %w", text, forge.ErrConflict)
	}
	return xerrors.New(text)
}

func (c *client) retryAt(resp *http.Response) time.Time {
	after := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil && seconds >= 0 {
		return c.now().Add(time.Duration(seconds) * time.Second)
	}
	if at, err := http.ParseTime(after); err == nil {
		return at
	}
	return c.now().Add(pause)
}

// missing says whether the forge has no such path: it is older.
func missing(err error) bool {
	return errors.Is(err, forge.ErrNotFound) || errors.Is(err, forge.ErrUnsupported)
}

// hidden makes of not finding the entity itself that it is not shown.
func (c *client) hidden(err error) error {
	if !errors.Is(err, forge.ErrNotFound) {
		return err
	}
	return xerrors.Errorf("%s is not there, or the token may not see it: %w", c.root, forge.ErrRefused)
}

// visible says whether the token sees the entity: what is hidden is not gone.
func (c *client) visible(ctx context.Context) error {
	query := url.Values{"limit": {"1"}}
	return c.hidden(c.do(ctx, http.MethodGet, c.root+"/actions/runners", query, nil, nil))
}

// Rate is not told by Gitea.
func (c *client) Rate() forge.Rate { return forge.Rate{} }
