package github

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/coder/quartz"
	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// timeout bounds each request, with the reading of its answer.
const timeout = 30 * time.Second

// fresh is for how long tools and groups are not asked for again (P5).
const fresh = time.Minute

// client is one entity of GitHub.
type client struct {
	api   *github.Client
	trip  *trip
	scope forge.Scope
	root  string // of the API's paths of the entity: orgs/acme
	page  string // of the entity, for people and runners: https://github.com/acme
	now   func() time.Time

	mu      sync.Mutex
	tools   []forge.Tool
	toolsAt time.Time
	groups  map[string]int64
	groupAt time.Time
}

// pathOf is what a path is made of: as names of owners, repositories and enterprises are.
var pathOf = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// Connect makes a client. Requests go through the proxy of the environment.
func (kind) Connect(c forge.Connection) (forge.Forge, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") {
		return nil, xerrors.Errorf("the URL %q is none of an API, which is like https://api.github.com or https://host/api/v3", c.URL)
	}
	root, err := rootOf(c.Scope, c.Path)
	if err != nil {
		return nil, err
	}
	trip, err := newTrip(c, base)
	if err != nil {
		return nil, err
	}
	address := strings.TrimSuffix(c.URL, "/") + "/"
	api, err := github.NewClient(
		github.WithHTTPClient(&http.Client{Transport: trip, Timeout: timeout}), github.WithURLs(&address, nil),
		github.WithUserAgent("prewarm"), github.WithDisableRateLimitCheck(), // trip does it, by its own clock
	)
	if err != nil {
		return nil, xerrors.Errorf("make client: %w", err)
	}
	return &client{
		api: api, trip: trip, scope: c.Scope, root: root, page: pageOf(base, c.Scope, c.Path), now: trip.now,
		groups: map[string]int64{},
	}, nil
}

// rootOf is where the API has the entity.
func rootOf(scope forge.Scope, path string) (string, error) {
	parts := strings.Split(path, "/")
	for _, part := range parts {
		if !pathOf.MatchString(part) || part == "." || part == ".." {
			return "", xerrors.Errorf("the path %q is none of GitHub", path)
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
	return "", xerrors.Errorf("the path %q is none of a GitHub %s", path, scope)
}

// pageOf is the entity's address for people, which is where runners register with a token.
func pageOf(api *url.URL, scope forge.Scope, path string) string {
	host := strings.TrimPrefix(api.Host, "api.") // api.github.com, api.acme.ghe.com; of a server it is the host itself
	if scope == forge.Enterprise {
		path = "enterprises/" + path
	}
	return api.Scheme + "://" + host + "/" + path
}

// trip carries every request: it adds the credential, and keeps off while the forge wants to be left alone.
type trip struct {
	base   http.RoundTripper
	host   string // that the credential is for: a redirect elsewhere goes without
	token  func(ctx context.Context) (string, error)
	now    func() time.Time
	limits limits
}

func newTrip(c forge.Connection, base *url.URL) (*trip, error) {
	transport, err := forge.Transport(c.CABundle)
	if err != nil {
		return nil, err
	}
	t := &trip{base: transport, host: base.Host, now: c.Now}
	if t.now == nil {
		t.now = func() time.Time { return quartz.NewReal().Now() }
	}
	switch {
	case c.App == nil && c.Token == "":
		return nil, xerrors.New("there is neither a token nor an App to connect with")
	case c.App == nil:
		t.token = func(context.Context) (string, error) { return c.Token, nil }
	default:
		app, err := ghinstallation.New(transport, c.App.ID, c.App.InstallationID, c.App.PrivateKey)
		if err != nil {
			// Its text may quote the key.
			return nil, xerrors.New("the App's private key is not one: PEM of an RSA key is wanted, as GitHub makes it")
		}
		app.BaseURL = strings.TrimSuffix(c.URL, "/")
		t.token = turns(app.Token)
	}
	return t, nil
}

// turns has one ask for a token while the others wait, each no longer than its context.
func turns(token func(context.Context) (string, error)) func(context.Context) (string, error) {
	turn := make(chan struct{}, 1)
	return func(ctx context.Context) (string, error) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
			return token(ctx)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func (t *trip) RoundTrip(req *http.Request) (*http.Response, error) {
	class := classOf(req)
	if err := t.limits.blocked(class, t.now()); err != nil {
		closeBody(req)
		return nil, err
	}
	if req.URL.Host == t.host {
		token, err := t.token(req.Context())
		if err != nil {
			closeBody(req)
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
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

func (c *client) Rate() forge.Rate { return c.trip.limits.rate("core") }

// get asks for what is at a path below the API's root.
func (c *client) get(ctx context.Context, path string, query url.Values, into any) (*github.Response, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.do(ctx, http.MethodGet, path, nil, into)
}

// do sends one request and reads its answer.
func (c *client) do(ctx context.Context, method, path string, body, into any) (*github.Response, error) {
	req, err := c.api.NewRequest(ctx, method, path, body)
	if err != nil {
		return nil, xerrors.Errorf("make request: %w", err)
	}
	resp, err := c.api.Do(req, into)
	return resp, wrong(err, c.now())
}

// visible says whether the credential sees the entity: GitHub answers 404 also for what it hides, and what is hidden is not
// gone.
func (c *client) visible(ctx context.Context) error {
	_, err := c.get(ctx, c.root+"/actions/runners", url.Values{"per_page": {"1"}}, nil)
	return hidden(err, c.root)
}

// hidden makes of not finding the entity itself that it is not shown.
func hidden(err error, root string) error {
	if !errors.Is(err, forge.ErrNotFound) {
		return err
	}
	return xerrors.Errorf("%s is not there, or the credential may not see it: %w", root, forge.ErrRefused)
}
