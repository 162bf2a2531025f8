package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

type portLinkInput struct {
	PortRef
	Body *sdk.PortLinkRequest // none: to the root

	page string // the host of our page, where one asks
}

// Resolve finds out whether a page asks, and where it is.
func (in *portLinkInput) Resolve(hc huma.Context) []error {
	if hasSession(hc) {
		in.page = bareHost(hc.Host())
	}
	return nil
}

func (s *server) registerPortLinks() {
	answer(s, operation{
		id: "create-port-link", method: http.MethodPost, path: "/workspaces/{workspace}/ports/{port}/link",
		action: auth.ActUseWorkspace, tag: "ports", summary: "Make a link by which one browser reaches a port in a claimed workspace",
		description: "The link can be opened once, within a minute. The browser then has a cookie for that port alone, for 12 hours " +
			"at most. The cookie ends with the claim, and with the token or session that made the link. 501 if the server has no " +
			"`--workspace-domain`.",
	}, s.createPortLink)
}

func (s *server) createPortLink(ctx context.Context, who auth.Identity, in *portLinkInput) (sdk.PortLink, error) {
	e, err := s.inside(ctx, who, in.Ref)
	if err != nil {
		return sdk.PortLink{}, err
	}
	if s.PortDomain.name == "" {
		return sdk.PortLink{}, huma.Error501NotImplemented("browsers reach no ports here: start the server with --workspace-domain, " +
			"or use prewarm port-forward")
	}
	if in.page != "" && related(in.page, s.PortDomain.name) {
		return sdk.PortLink{}, auth.Refuse(auth.ErrConflict, "the page is at %s, and ports are below %s: a program there could take "+
			"your session. Open the page at %s", in.page, s.PortDomain.name, s.PortDomain.ui)
	}
	path := database.OrZero(in.Body).Path
	if !samePlace(path) {
		return sdk.PortLink{}, auth.Refuse(auth.ErrInvalid, "path %q is no path of a page: write one such as /docs?page=2", path)
	}
	expires := s.Clock.Now("api", "ticket").Add(linkAge)
	signed, err := s.sign(ctx, linkTicket, ticket{
		ID: uuid.New(), Expires: jwt.NewNumericDate(expires), WorkspaceID: e.ID, ClaimID: e.ClaimID.UUID, Port: in.Port,
		UserID: who.UserID, OrganizationID: who.OrganizationID, TokenID: who.TokenID, CredentialID: who.CredentialID, Path: path,
	})
	if err != nil {
		return sdk.PortLink{}, err
	}
	to := s.PortDomain.origin(door{in.Port, e.Name}) + enterPath + "?" + url.Values{"link": {signed}}.Encode()
	return sdk.PortLink{URL: to, ExpiresAt: expires.UTC()}, nil
}

// maxLinkPath is that of sdk.PortLinkRequest.
const maxLinkPath = 2048

// samePlace says whether a path, which is put behind an origin, stays there.
func samePlace(path string) bool {
	_, err := url.ParseRequestURI(path)
	return path == "" || strings.HasPrefix(path, "/") && err == nil
}

// enterPort turns a link into a cookie, for this host alone, and leads to where the link does.
func (s *server) enterPort(w http.ResponseWriter, r *http.Request, d door) {
	if r.Method != http.MethodGet {
		s.say(w, r, d, http.StatusMethodNotAllowed, "a link is opened with GET")
		return
	}
	ctx := r.Context()
	t, err := s.verify(ctx, linkTicket, r.URL.Query().Get("link"))
	if err == nil {
		_, err = s.admitted(ctx, r, d, t)
	}
	var cookie string
	if err == nil {
		var until time.Time
		until, err = auth.Begin(ctx, s.Store, t.ID, t.TokenID, ticketAge)
		stays := t
		stays.Path, stays.Expires = "", jwt.NewNumericDate(until)
		if err == nil {
			cookie, err = s.sign(ctx, cookieTicket, stays)
		}
	}
	switch {
	case errors.Is(err, errNoTicket), errors.Is(err, auth.ErrUsed), errors.Is(err, auth.ErrUnauthenticated):
		s.say(w, r, d, http.StatusForbidden, "this link is over: it could be opened once, within a minute, for this port")
		return
	case err != nil:
		s.fail(w, r, d, err)
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever there is TLS: without, ports are for loopback only.
		Name: s.PortDomain.cookie(), Value: cookie, Path: "/", MaxAge: int(ticketAge.Seconds()), HttpOnly: true,
		Secure: s.PortDomain.secure(), SameSite: http.SameSiteLaxMode,
	})
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", s.PortDomain.asked(r)+cmp.Or(t.Path, "/"))
	w.WriteHeader(http.StatusSeeOther)
}
