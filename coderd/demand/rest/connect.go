package rest

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/coder/quartz"
	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

const (
	// timeout bounds each request, with the reading of its answer.
	timeout = 30 * time.Second
	// maximumAnswer is as much as is read of one answer, in bytes.
	maximumAnswer = 32 << 20
)

// Kind is what differs between kinds of forges.
type Kind struct {
	Name string     // for people, and in the headers of webhooks
	Like string     // what the URL of a connection is of
	Page url.Values // asks for as much as is listed at once
	// Counted: a listing ends with a page that is empty, or with as many as it counts; else by the header Link.
	Counted bool
	// NotListed is what is said of a server that cannot list runners; empty: there is none such.
	NotListed string
	// HooksQuery are conditions of the listing of webhooks.
	HooksQuery url.Values
	// NoHooks is why webhooks can't be had; nil: they can.
	NoHooks error
}

// Client is one entity of a forge.
type Client struct {
	Kind
	Scope  forge.Scope
	Root   string // of the API's paths of the entity: orgs/acme
	Now    func() time.Time
	api    *github.Client
	limits *limits
	spare  bool
}

// Authorize makes what is sent in the header Authorization of each request.
type Authorize func(context.Context) (string, error)

// New makes the client of an entity, below the API's address. It asks the forge nothing.
func New(k Kind, c forge.Connection, address, root string, authorize func(http.RoundTripper) (Authorize, error)) (*Client, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") {
		return nil, xerrors.Errorf("the URL %q is none of %s", c.URL, k.Like)
	}
	transport, err := forge.Transport(c.CABundle)
	if err != nil {
		return nil, err
	}
	t := &trip{base: transport, host: base.Host, now: c.Now, limits: &limits{}}
	if t.now == nil {
		t.now = func() time.Time { return quartz.NewReal().Now() }
	}
	if t.authorize, err = authorize(transport); err != nil {
		return nil, err
	}
	address = strings.TrimSuffix(address, "/") + "/"
	api, err := github.NewClient(
		github.WithHTTPClient(&http.Client{Transport: t, Timeout: timeout}), github.WithURLs(&address, nil),
		github.WithUserAgent("prewarm"), github.WithDisableRateLimitCheck(), // trip does it, by its own clock
	)
	if err != nil {
		return nil, xerrors.Errorf("make client: %w", err)
	}
	return &Client{Kind: k, Scope: c.Scope, Root: root, Now: t.now, api: api, limits: t.limits}, nil
}

// pathOf is what a path is made of: as names of owners, repositories and enterprises are.
var pathOf = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// RootOf is where the API has an entity.
func (k Kind) RootOf(scope forge.Scope, path string) (string, error) {
	parts := strings.Split(path, "/")
	for _, part := range parts {
		if !pathOf.MatchString(part) || part == "." || part == ".." {
			return "", xerrors.Errorf("the path %q is none of %s", path, k.Name)
		}
	}
	switch {
	case scope == forge.Repository && len(parts) == 2:
		return "repos/" + path, nil
	case scope == forge.Organization && len(parts) == 1:
		return "orgs/" + path, nil
	case scope == forge.Enterprise && len(parts) == 1:
		return "enterprises/" + path, nil
	}
	return "", xerrors.Errorf("the path %q is none of a %s %s", path, k.Name, scope)
}

// trip carries every request: it adds the credential, and keeps off while the forge wants to be left alone.
type trip struct {
	base      http.RoundTripper
	host      string // that the credential is for: a redirect elsewhere goes without
	authorize Authorize
	now       func() time.Time
	limits    *limits
}

func (t *trip) RoundTrip(req *http.Request) (*http.Response, error) {
	class := classOf(req)
	if err := t.limits.blocked(class, t.now()); err != nil {
		closeBody(req)
		return nil, err
	}
	if req.URL.Host == t.host {
		header, err := t.authorize(req.Context())
		if err != nil {
			closeBody(req)
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", header)
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maximumAnswer), resp.Body}
	t.limits.heard(class, resp, t.now())
	return resp, nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// classOf is the account that a request is counted on: registrations have one of their own.
func classOf(req *http.Request) string {
	for _, end := range []string{"/generate-jitconfig", "/registration-token"} {
		if strings.HasSuffix(req.URL.Path, end) {
			return "actions_runner_registration"
		}
	}
	return "core"
}

// Rate is what was last heard of the limit on requests.
func (c *Client) Rate() forge.Rate { return c.limits.rate("core") }

// Sparing is a client that keeps a fifth of the requests for what can't wait: runners that register and go.
func (c *Client) Sparing() *Client {
	sparing := *c
	sparing.spare = true
	return &sparing
}

// Get asks for what is at a path below the API's root.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) (*github.Response, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.Do(ctx, http.MethodGet, path, nil, into)
}

// Do sends one request and reads its answer, with the errors of package forge. No error has the credential or a request's
// body.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) (*github.Response, error) {
	if r := c.Rate(); c.spare && r.Limit > 0 && r.Remaining < r.Limit/5 && r.ResetAt.After(c.Now()) {
		return nil, xerrors.Errorf("only %d of %d requests remain until %s, and they are kept for runners", r.Remaining, r.Limit,
			r.ResetAt.Format("15:04:05 MST"))
	}
	req, err := c.api.NewRequest(ctx, method, path, body)
	if err != nil {
		return nil, xerrors.Errorf("make request: %w", err)
	}
	resp, err := c.api.Do(req, into)
	return resp, wrong(err, c.Now())
}

// List reads a listing to its last page. take is given each page, and says how many are on it, and of how many in all (below
// zero: the forge does not count them).
func List[P any](ctx context.Context, c *Client, path string, query url.Values, take func(P) (n, total int)) error {
	asked := maps.Clone(c.Page)
	maps.Copy(asked, query)
	read := 0
	for next := 1; next != 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		asked.Set("page", strconv.Itoa(next))
		var page P
		resp, err := c.Get(ctx, path, asked, &page)
		if err != nil {
			return err
		}
		n, total := take(page)
		read += n
		switch {
		case !c.Counted && resp.NextPage != 0 && resp.NextPage <= next:
			return xerrors.Errorf("after page %d the forge names page %d", next, resp.NextPage)
		case !c.Counted:
			next = resp.NextPage
		case n == 0 || total >= 0 && read >= total: // a short page is not the last
			next = 0
		default:
			next++
		}
	}
	return nil
}

// Visible says whether the credential sees the entity: forges answer 404 also for what they hide, and what is hidden is not
// gone.
func (c *Client) Visible(ctx context.Context) error {
	one := maps.Clone(c.Page)
	for size := range one {
		one.Set(size, "1")
	}
	_, err := c.Get(ctx, c.Root+"/actions/runners", one, nil)
	return c.Hidden(err)
}

// Gone is what came of asking for something of the entity: of a *forge.ErrNotFound it is known that the entity is visible.
func (c *Client) Gone(ctx context.Context, err error) error {
	if errors.Is(err, forge.ErrNotFound) {
		if hidden := c.Visible(ctx); hidden != nil {
			return hidden
		}
	}
	return err
}

// Hidden makes of not finding the entity itself that it is not shown.
func (c *Client) Hidden(err error) error {
	if !errors.Is(err, forge.ErrNotFound) {
		return err
	}
	return xerrors.Errorf("%s is not there, or the credential may not see it: %w", c.Root, forge.ErrRefused)
}
