package api

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// A browser reaches a port on an origin of its own, PORT--NAME.DOMAIN, with a cookie for that host alone. Everything at such a
// host is the program's, but for what is below reservedPath; our pages and the API are never there.

const (
	// reservedPath is what at the host of a port is ours.
	reservedPath = "/.prewarm/"
	enterPath    = reservedPath + "enter"

	portCookie       = "prewarm-port"
	securePortCookie = "__Host-prewarm-port"
)

//go:embed pages/port.html
var portPage string

// cookie is the name of the one that lets a browser to a port.
func (d PortDomain) cookie() string {
	if d.secure() {
		return securePortCookie
	}
	return portCookie
}

// byHost tells requests for ports from those for our pages and the API, before anything else looks at them.
func (s *server) byHost(ours http.Handler) http.Handler {
	if s.PortDomain.name == "" {
		return ours
	}
	ports := s.requestID(s.accessLog(s.recoverPanics(http.HandlerFunc(s.servePort))))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.PortDomain.has(r.Host) {
			ports.ServeHTTP(w, r)
			return
		}
		ours.ServeHTTP(w, r)
	})
}

func (s *server) servePort(w http.ResponseWriter, r *http.Request) {
	d, known := s.PortDomain.door(r.Host)
	switch {
	case !known:
		s.say(w, r, d, http.StatusNotFound, "there is nothing at this address. One of a port is PORT--WORKSPACE."+s.PortDomain.name+
			", with a port from 1 to 65535")
	case r.URL.Path == enterPath:
		s.enterPort(w, r, d)
	case strings.HasPrefix(r.URL.Path, reservedPath):
		s.say(w, r, d, http.StatusNotFound, "there is nothing at this path: those below "+reservedPath+" are not the program's")
	default:
		s.visitPort(w, r, d)
	}
}

// visitPort hands a request on to the program, for who may pass.
func (s *server) visitPort(w http.ResponseWriter, r *http.Request, d door) {
	e, err := s.mayPass(r, d)
	if err != nil {
		s.fail(w, r, d, err)
		return
	}
	ctx, stop := s.passing(r.Context(), e, d.port)
	defer stop()
	target := cmp.Or(r.URL.EscapedPath(), "/")
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		target += "?" + r.URL.RawQuery
	}
	origin := s.PortDomain.asked(r)
	w.Header().Set("Cache-Control", "private") // where the program says nothing
	s.proxyPort(ctx, w, r, e, portRequest{
		PortRef: PortRef{Port: d.port}, before: origin, target: target,
		outgoing: func(h http.Header) { withoutOurs(h, origin, d.port) },
		refuse:   func(err error) { s.fail(w, r, d, err) },
	})
}

// passing is the context of a request to a port, which ends when who made it may make it no longer.
func (s *server) passing(ctx context.Context, e entrance, port int) (_ context.Context, stop func()) {
	if e.publicPort == 0 {
		return s.watch.While(ctx, e.who)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.openings.while(ctx, cancel, opening{workspace: e.ID, incarnation: e.Incarnation, port: int32(port)})
	return ctx, func() { cancel(nil) }
}

var errOtherOrigin = huma.Error403Forbidden("a page of another origin asks, with your cookie for this port: only the port's own pages may")

// mayPass decides whether a request may go to a port, and for whom: the only place that does. A public port is for anybody, and for
// pages of any origin: nothing of the user's goes there with a request.
func (s *server) mayPass(r *http.Request, d door) (entrance, error) {
	e, err := s.byTicket(r, d)
	if !errors.Is(err, errNoTicket) && !errors.Is(err, errOtherOrigin) {
		return e, err
	}
	found, lookErr := s.publicly(r.Context(), d.workspace, d.port, hostOf(r.RemoteAddr))
	if errors.Is(lookErr, errNoTicket) {
		return e, err
	}
	return found, lookErr
}

// publicly is a claimed workspace, for somebody whom nobody knows, who reaches a public port of it; errNoTicket where it is none.
func (s *server) publicly(ctx context.Context, workspace string, port int, source string) (entrance, error) {
	if !prebuilds.IsName(workspace) { // nobody in particular has the database asked for what cannot be there
		return entrance{}, errNoTicket
	}
	row, err := s.entrance(ctx, auth.BuiltinUserID, viewsdb.EntranceParams{Name: &workspace})
	if err != nil && !database.NoRows(err) {
		return entrance{}, xerrors.Errorf("find workspace: %w", err)
	}
	e := entrance{EntranceRow: row, action: auth.ActUseWorkspace, publicPort: port}
	e.who = auth.Identity{
		Principal: auth.Principal{UserID: auth.BuiltinUserID}, Membership: auth.Membership{OrganizationID: row.OrganizationID}, Source: source,
	}
	if err != nil || !e.public(port) || !e.DataPlane || s.Tunnels == nil {
		return e, errNoTicket
	}
	return e, nil
}

// byTicket is for who has a cookie of the port.
func (s *server) byTicket(r *http.Request, d door) (entrance, error) {
	ctx := r.Context()
	for _, c := range r.CookiesNamed(s.PortDomain.cookie()) { // a neighbour may have set others of that name
		t, err := s.verify(ctx, cookieTicket, c.Value)
		if err == nil && t.Port != d.port {
			err = errNoTicket
		}
		var e entrance
		if err == nil {
			e, err = s.admitted(ctx, r, d, t, t.ID)
		}
		switch {
		case errors.Is(err, errNoTicket):
			continue
		case err != nil:
			return e, err
		case fromElsewhere(r, s.PortDomain.asked(r)):
			return e, errOtherOrigin
		}
		return e, nil
	}
	return entrance{}, errNoTicket // without a cookie nobody passes
}

// admitted is the workspace that a ticket lets into, while who has it may enter, and what it was made with is valid.
func (s *server) admitted(ctx context.Context, r *http.Request, d door, t ticket, also ...uuid.UUID) (entrance, error) {
	who, err := s.holder(ctx, t, also...)
	if err != nil {
		return entrance{}, err
	}
	who.Source = hostOf(r.RemoteAddr)
	e, err := s.inside(ctx, who, d.workspace)
	if errors.Is(err, auth.ErrNotFound) || err == nil && (e.Name != d.workspace || !t.admits(e, d.port)) {
		err = errNoTicket // of another workspace, or of a claim that has ended
	}
	return e, err
}

// fromElsewhere says whether a page of another origin made a request, that of another port too. A link that is followed is no
// such request, as it shows the user where they are.
func fromElsewhere(r *http.Request, origin string) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		from := r.Header.Get("Origin") // of a WebSocket, and of whatever changes something, all browsers say it
		return from != "" && from != origin
	}
	return !navigates(r) || r.Header.Get("Sec-Fetch-Mode") == ""
}

// navigates says whether a browser goes to a page, in a tab of its own.
func navigates(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.Header.Get("Upgrade") != "" {
		return false
	}
	mode, to := r.Header.Get("Sec-Fetch-Mode"), r.Header.Get("Sec-Fetch-Dest")
	return mode == "navigate" && to == "document" || mode == "" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// withoutOurs takes out of a request for a program what is ours. The program has localhost for its host, so an origin that is the
// port's own becomes that too: many compare the two.
func withoutOurs(h http.Header, origin string, port int) {
	var cookies []string
	for _, line := range h.Values("Cookie") {
		for cookie := range strings.SplitSeq(line, ";") {
			if !isOurs(cookie) {
				cookies = append(cookies, strings.TrimSpace(cookie))
			}
		}
	}
	if h.Del("Cookie"); len(cookies) > 0 {
		h.Set("Cookie", strings.Join(cookies, "; "))
	}
	theirs := lists.Only(h.Values("Authorization"), func(value string) bool { return !auth.InHeader(value) })
	if h.Del("Authorization"); len(theirs) > 0 {
		h["Authorization"] = theirs
	}
	if h.Get("Origin") == origin {
		h.Set("Origin", "http://"+localhost(port))
	}
}

// fail answers with why a request does not get to a port. Who has no cookie yet is led to our page, which makes a link.
func (s *server) fail(w http.ResponseWriter, r *http.Request, d door, err error) {
	if errors.Is(err, errNoTicket) {
		if navigates(r) {
			path := cmp.Or(r.URL.RequestURI(), "/")
			if len(path) > maxLinkPath || !samePlace(path) {
				path = "/"
			}
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Referrer-Policy", "no-referrer")
			w.Header().Set("Location", s.PortDomain.page(d, path))
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		s.say(w, r, d, http.StatusUnauthorized, "this port is for the user of the workspace's claim: open it in a browser first")
		return
	}
	status, message := http.StatusInternalServerError, "something went wrong in the server"
	if problem, is := errors.AsType[huma.StatusError](s.problem(r.Context(), err)); is {
		status, message = problem.GetStatus(), problem.Error()
	}
	if headers, has := errors.AsType[huma.HeadersError](err); has {
		for name, values := range headers.GetHeaders() {
			w.Header()[name] = values
		}
	}
	s.say(w, r, d, status, message)
}

// say answers at the host of a port with words of ours: a page for browsers, and a problem for others.
func (s *server) say(w http.ResponseWriter, r *http.Request, d door, status int, detail string) {
	securityHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			writeProblem(w, status, detail)
			return
		}
		data := map[string]any{"Title": http.StatusText(status), "Detail": detail}
		if d.port != 0 {
			data["Link"] = template.URL(s.PortDomain.page(d, "/")) //nolint:gosec // It is an address of ours.
		}
		showPage(w, status, portPage, data)
	})).ServeHTTP(w, r)
}
