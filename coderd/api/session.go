package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// A session is how a browser holds a token: by a secret of its own, in a cookie that no script can read and no other site's
// page makes it send. It ends with the token, everywhere and at once.

const (
	// sessionCookie is without TLS, which browsers want for the other name: that one no neighbour in the domain can set.
	sessionCookie       = "prewarm"
	secureSessionCookie = "__Host-prewarm"
	// formerCookie was the token itself, up to 0.1. It is believed no more, and browsers forget it when they sign in.
	formerCookie = "prewarm_session"
	// sessionAge is how long a session lasts at most.
	sessionAge = 30 * 24 * time.Hour
)

type sessionInput struct {
	Authorization string `header:"Authorization" hidden:"true"`
	secure        bool
	session       string
}

// Resolve finds out whether the browser speaks TLS, and what it holds.
func (in *sessionInput) Resolve(hc huma.Context) []error {
	in.secure, in.session = secure(hc), sessionOf(hc)
	return nil
}

// secure says whether the browser speaks TLS, perhaps to a proxy that is trusted.
func secure(hc huma.Context) bool {
	return hc.TLS() != nil || hc.Header("X-Forwarded-Proto") == "https"
}

type sessionOutput[T any] struct {
	SetCookies []http.Cookie `header:"Set-Cookie"`
	Body       T
}

type noSessionOutput struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
}

func (s *server) registerSession() {
	register(s, operation{
		id: "create-session", method: http.MethodPost, path: "/session", action: auth.ActLogin, tag: "tokens",
		summary: "Sign in a browser, on the record",
		description: "Sets a cookie that stands for the bearer token of this request, until the token ends, for 30 days at " +
			"most. Requests with the cookie that change something must come from a page of this server.",
	}, s.createSession)
	register(s, operation{
		id: "delete-session", method: http.MethodDelete, path: "/session", action: auth.ActReadSelf, tag: "tokens",
		status: http.StatusNoContent, summary: "Sign out a browser; the token stays valid",
	}, func(ctx context.Context, who auth.Identity, in *sessionInput) (*noSessionOutput, error) {
		if err := auth.SignOut(ctx, s.Store, who); err != nil {
			return nil, err
		}
		s.Auth.Forget(auth.Secret(in.session))
		return &noSessionOutput{noSession(in.secure)}, nil
	})
}

func (s *server) createSession(
	ctx context.Context, who auth.Identity, in *sessionInput,
) (*sessionOutput[sdk.Identity], error) {
	if in.Authorization == "" {
		return nil, auth.Refuse(auth.ErrInvalid, "send the token to sign in with as `Authorization: Bearer …`")
	}
	secret, until, err := auth.SignIn(ctx, s.Store, who, sessionAge)
	if err != nil {
		return nil, err
	}
	age := s.Clock.Until(until, "api", "session")
	former := http.Cookie{Name: formerCookie, Path: prefix, MaxAge: -1, HttpOnly: true, Secure: in.secure} //nolint:gosec // As below.
	return &sessionOutput[sdk.Identity]{[]http.Cookie{session(secret.Reveal(), age, in.secure), former}, identityOf(who)}, nil
}

// session is the cookie. Strict: not even a link from elsewhere makes a browser send it.
func session(secret string, age time.Duration, secure bool) http.Cookie {
	return http.Cookie{ //nolint:gosec // Secure wherever there is TLS: servers at home have none.
		Name: sessionCookieOf(secure), Value: secret, Path: "/", MaxAge: max(1, int(age.Seconds())), HttpOnly: true,
		Secure: secure, SameSite: http.SameSiteStrictMode,
	}
}

func sessionCookieOf(secure bool) string {
	if secure {
		return secureSessionCookie
	}
	return sessionCookie
}

// noSession makes a browser forget it.
func noSession(secure bool) http.Cookie {
	c := session("", 0, secure) //nolint:gosec // As above.
	c.MaxAge = -1
	return c
}

// sessionOf is the session of a browser's request; empty where it has none.
func sessionOf(hc huma.Context) string {
	cookies, err := http.ParseCookie(hc.Header("Cookie"))
	if err != nil {
		return ""
	}
	name := sessionCookieOf(secure(hc))
	for _, c := range cookies {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// hasSession says whether a request has a session of ours, also one that is no good, and among cookies that are malformed.
func hasSession(hc huma.Context) bool {
	r, _ := humachi.Unwrap(hc)
	cookies := strings.Join(r.Header.Values("Cookie"), ";")
	return slices.ContainsFunc(strings.Split(cookies, ";"), isSession)
}

// isSession says whether a cookie, which may have attributes, has the name of a session.
func isSession(cookie string) bool {
	return slices.Contains([]string{sessionCookie, secureSessionCookie, formerCookie}, cookieName(cookie))
}

// isOurs says whether a cookie has a name of ours, which no program in a workspace may see or set.
func isOurs(cookie string) bool {
	return isSession(cookie) || slices.Contains([]string{portCookie, securePortCookie, ""}, cookieName(cookie))
}

func cookieName(cookie string) string {
	name, _, _ := strings.Cut(cookie, "=")
	return strings.TrimSpace(name)
}

var crossOrigin = http.NewCrossOriginProtection()

// forged says whether a request with a session may have been made by a page of another origin. Whoever sends a cookie is
// a browser, and all browsers say where a request that is not safe comes from: one that does not say is refused too.
func forged(hc huma.Context) bool {
	r, _ := humachi.Unwrap(hc)
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false // websocket.Accept looks at the origin itself
	}
	silent := r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == ""
	return silent || crossOrigin.Check(r) != nil
}
