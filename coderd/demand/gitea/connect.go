package gitea

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/rest"
)

// as is Gitea among the kinds of forges. It lists 50 at once where nobody has set less.
var as = rest.Kind{
	Name: "Gitea", Like: "a Gitea, which is like https://gitea.example", Page: url.Values{"limit": {"50"}}, Counted: true,
	NotListed: "Gitea lists runners from 1.24 on",
}

// client is one entity of Gitea.
type client struct {
	*rest.Client
	page   string // where runners register: the instance
	entity string // the entity's page; of the whole instance, the instance
}

// Connect makes a client. Requests go through the proxy of the environment.
func (kind) Connect(c forge.Connection) (forge.Forge, error) {
	if c.App != nil {
		return nil, xerrors.New("Gitea has no Apps: connect with a token")
	}
	if c.Token == "" {
		return nil, xerrors.New("there is no token to connect with")
	}
	k, root := as, "admin"
	if c.Scope == forge.Enterprise {
		k.HooksQuery = url.Values{"type": {"system"}}
	} else {
		var err error
		if root, err = as.RootOf(c.Scope, c.Path); err != nil {
			return nil, err
		}
	}
	page := strings.TrimSuffix(strings.TrimSuffix(c.URL, "/"), "/api/v1")
	api, err := rest.New(k, c, page+"/api/v1", root, func(http.RoundTripper) (rest.Authorize, error) {
		return func(context.Context) (string, error) { return "token " + c.Token, nil }, nil
	})
	if err != nil {
		return nil, err
	}
	made := &client{Client: api, page: page, entity: page}
	if c.Scope != forge.Enterprise {
		made.entity += "/" + c.Path
	}
	return made, nil
}

// Page is the entity's address for people.
func (c *client) Page() string { return c.entity }

// missing says whether the forge has no such path: it is older.
func missing(err error) bool {
	return errors.Is(err, forge.ErrNotFound) || errors.Is(err, forge.ErrUnsupported)
}
