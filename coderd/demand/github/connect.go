package github

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/rest"
)

// fresh is for how long tools and groups are not asked for again (P5).
const fresh = time.Minute

// perPage is the most that GitHub lists at once.
const perPage = "100"

// as is GitHub among the kinds of forges.
var as = rest.Kind{
	Name: "GitHub", Like: "an API, which is like https://api.github.com or https://host/api/v3",
	Page: url.Values{"per_page": {perPage}},
}

// client is one entity of GitHub.
type client struct {
	*rest.Client
	page string // of the entity, for people and runners: https://github.com/acme

	mu      sync.Mutex
	jit     bool      // whether it makes configurations, as of jitAt
	jitAt   time.Time // zero: it was not asked
	tools   []forge.Tool
	toolsAt time.Time
	groups  map[string]int64
	groupAt time.Time
}

// Connect makes a client. Requests go through the proxy of the environment.
func (kind) Connect(c forge.Connection) (forge.Forge, error) {
	root, err := as.RootOf(c.Scope, c.Path)
	if err != nil {
		return nil, err
	}
	k := as
	if c.Scope == forge.Enterprise {
		k.NoHooks = xerrors.Errorf("an enterprise's webhooks are made by hand, in its settings: %w", forge.ErrUnsupported)
	}
	api, err := rest.New(k, c, c.URL, root, func(transport http.RoundTripper) (rest.Authorize, error) {
		token, err := tokenOf(c, transport)
		return func(ctx context.Context) (string, error) {
			t, err := token(ctx)
			return "Bearer " + t, err
		}, err
	})
	if err != nil {
		return nil, err
	}
	return &client{Client: api, page: pageOf(c), groups: map[string]int64{}}, nil
}

// Page is the entity's address for people.
func (c *client) Page() string { return c.page }

// pageOf is the entity's address for people, which is where runners register with a token.
func pageOf(c forge.Connection) string {
	api, _ := url.Parse(c.URL)                   // which rest has looked at
	host := strings.TrimPrefix(api.Host, "api.") // api.github.com, api.acme.ghe.com; of a server it is the host itself
	path := c.Path
	if c.Scope == forge.Enterprise {
		path = "enterprises/" + path
	}
	return api.Scheme + "://" + host + "/" + path
}

func tokenOf(c forge.Connection, transport http.RoundTripper) (rest.Authorize, error) {
	switch {
	case c.App == nil && c.Token == "":
		return nil, xerrors.New("there is neither a token nor an App to connect with")
	case c.App == nil:
		return func(context.Context) (string, error) { return c.Token, nil }, nil
	}
	app, err := ghinstallation.New(transport, c.App.ID, c.App.InstallationID, c.App.PrivateKey)
	if err != nil {
		// Its text may quote the key.
		return nil, xerrors.New("the App's private key is not one: PEM of an RSA key is wanted, as GitHub makes it")
	}
	app.BaseURL = strings.TrimSuffix(c.URL, "/")
	return turns(app.Token), nil
}

// turns has one ask for a token while the others wait, each no longer than its context.
func turns(token rest.Authorize) rest.Authorize {
	turn := semaphore.NewWeighted(1)
	return func(ctx context.Context) (string, error) {
		if err := turn.Acquire(ctx, 1); err != nil {
			return "", err
		}
		defer turn.Release(1)
		return token(ctx)
	}
}
