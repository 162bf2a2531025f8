package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// A session is how a browser holds a token: in a cookie that no script can read and no other site's page makes it send.
// The cookie is the token itself, so that it ends with the token, everywhere and at once.

const (
	sessionCookie = "prewarm_session"
	// sessionAge is how long a browser keeps it at most.
	sessionAge = 30 * 24 * time.Hour
)

type sessionInput struct {
	Authorization string `header:"Authorization" hidden:"true"`
	Forwarded     string `header:"X-Forwarded-Proto" hidden:"true"`
	secure        bool
}

// Resolve finds out whether the browser speaks TLS, perhaps to a proxy.
func (in *sessionInput) Resolve(hc huma.Context) []error {
	in.secure = hc.TLS() != nil || in.Forwarded == "https"
	return nil
}

type sessionOutput[T any] struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      T
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
	}, func(_ context.Context, _ auth.Identity, in *sessionInput) (*noSessionOutput, error) {
		return &noSessionOutput{noSession(in.secure)}, nil
	})
}

func (s *server) createSession(
	ctx context.Context, who auth.Identity, in *sessionInput,
) (*sessionOutput[sdk.Identity], error) {
	secret := bearerOf(in.Authorization)
	if secret == "" {
		return nil, auth.Refuse(auth.ErrInvalid, "send the token to sign in with as `Authorization: Bearer …`")
	}
	if err := auth.RecordLogin(ctx, s.Store, who); err != nil {
		return nil, err
	}
	age := sessionAge
	if who.ExpiresAt != nil {
		age = min(age, s.Clock.Until(*who.ExpiresAt, "api", "session"))
	}
	return &sessionOutput[sdk.Identity]{session(secret, age, in.secure), identityOf(who)}, nil
}

// session is the cookie. Strict: not even a link from elsewhere makes a browser send it.
func session(secret string, age time.Duration, secure bool) http.Cookie {
	return http.Cookie{ //nolint:gosec // Secure wherever there is TLS: servers at home have none.
		Name: sessionCookie, Value: secret, Path: prefix, MaxAge: max(1, int(age.Seconds())), HttpOnly: true,
		Secure: secure, SameSite: http.SameSiteStrictMode,
	}
}

// noSession makes a browser forget it.
func noSession(secure bool) http.Cookie {
	c := session("", 0, secure) //nolint:gosec // As above.
	c.MaxAge = -1
	return c
}

// sessionOf is the token of a browser's request; empty where it has none.
func sessionOf(hc huma.Context) string {
	cookies, err := http.ParseCookie(hc.Header("Cookie"))
	if err != nil {
		return ""
	}
	for _, c := range cookies {
		if c.Name == sessionCookie {
			return c.Value
		}
	}
	return ""
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
