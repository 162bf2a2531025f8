package forgetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/lists"
)

// rootKey is of the entity that a request is about.
type rootKey struct{}

func rootOf(r *http.Request) string { root, _ := r.Context().Value(rootKey{}).(string); return root }

// handler is all that the server answers.
func (f *Forge) handler() http.Handler {
	entity := http.NewServeMux()
	f.both(entity)
	prefix := "/api/v3"
	if f.opts.Gitea {
		prefix = "/api/v1"
		f.gitea(entity)
	} else {
		f.github(entity)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /_runner/run", f.run)
	mux.HandleFunc("POST /_runner/register", f.registerWithToken)
	mux.HandleFunc("GET /runner.tar.gz", f.download)
	if f.opts.Gitea {
		mux.HandleFunc("GET /api/v1/version", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, map[string]string{"version": "1.26.4"})
		})
	}
	mux.Handle(prefix+"/", http.StripPrefix(prefix, f.faulty(f.authorized(f.within(entity)))))
	return mux
}

// within finds the entity that the path begins with; what is left is the path in the entity. The forge is locked meanwhile.
func (f *Forge) within(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
		length := map[string]int{"repos": 3, "orgs": 2, "enterprises": 2, "admin": 1}[parts[0]]
		if length == 0 || len(parts) < length {
			fail(w, http.StatusNotFound, "Not Found")
			return
		}
		root := strings.Join(parts[:length], "/")
		if !f.shown(root) {
			fail(w, http.StatusNotFound, "Not Found")
			return
		}
		r2 := r.WithContext(context.WithValue(r.Context(), rootKey{}, root))
		address := *r.URL
		r2.URL = &address
		r2.URL.Path = "/" + strings.Join(parts[length:], "/")
		f.mu.Lock()
		defer f.mu.Unlock()
		next.ServeHTTP(w, r2)
	})
}

// shown says whether the credential sees the entity: those of Options.Roots, with their repositories; any where there are none.
func (f *Forge) shown(root string) bool {
	repository, is := strings.CutPrefix(root, "repos/")
	return len(f.opts.Roots) == 0 || slices.ContainsFunc(f.opts.Roots, func(known string) bool {
		return known == root || is && covers(known, repository)
	})
}

// authorized lets the token through, tokens of installations, and whoever asks for one of these.
func (f *Forge) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if strings.HasPrefix(r.URL.Path, "/app/installations/") && strings.HasSuffix(r.URL.Path, "/access_tokens") {
			f.installation(w, token)
			return
		}
		f.mu.Lock()
		until, known := f.tokens[token]
		good := token == f.opts.Token || known && until.After(f.clock.Now())
		f.mu.Unlock()
		if !good {
			fail(w, http.StatusUnauthorized, "Bad credentials")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// installation makes a token of an App's installation, for something with the looks of a JWT.
func (f *Forge) installation(w http.ResponseWriter, jwt string) {
	if strings.Count(jwt, ".") != 2 {
		fail(w, http.StatusUnauthorized, "A JSON web token could not be decoded")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	token := fmt.Sprintf("ghs_installation%d", f.id())
	f.tokens[token] = f.clock.Now().Add(f.opts.TokenLife)
	answer(w, http.StatusCreated, map[string]any{"token": token, "expires_at": f.tokens[token].UTC().Format(time.RFC3339)})
}

// faulty counts, limits, and goes wrong.
func (f *Forge) faulty(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.requests[path.Base(r.URL.Path)]++
		f.requests[""]++
		until, limited := f.count(w.Header())
		wrong, after, slow, slowFor := f.chance(f.faults.Errors), f.chance(0.5), f.chance(f.faults.Slow), f.faults.SlowFor
		f.mu.Unlock()
		switch {
		case !until.IsZero():
			w.Header().Set("Retry-After", strconv.Itoa(int(until.Sub(f.clock.Now()).Seconds())+1))
			fail(w, http.StatusTooManyRequests, "You have exceeded a secondary rate limit")
			return
		case limited:
			fail(w, http.StatusForbidden, "API rate limit exceeded")
			return
		}
		if f.opts.Before != nil {
			f.opts.Before(r)
		}
		if slow && !f.wait(slowFor) {
			return
		}
		if wrong {
			if after {
				next.ServeHTTP(httptest.NewRecorder(), r)
			}
			fail(w, http.StatusBadGateway, "Server Error")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// count is of one request: until when a secondary limit holds, and whether the primary one is reached. The forge is locked.
func (f *Forge) count(h http.Header) (until time.Time, limited bool) {
	now := f.clock.Now()
	if f.limited.After(now) {
		return f.limited, false
	}
	if f.opts.RateLimit == 0 || f.opts.Gitea {
		return time.Time{}, false
	}
	if !f.rate.reset.After(now) {
		f.rate = window{reset: now.Add(f.opts.RateWindow)}
	}
	limited = f.rate.used >= f.opts.RateLimit
	if !limited {
		f.rate.used++
	}
	h.Set("X-RateLimit-Limit", strconv.Itoa(f.opts.RateLimit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(f.opts.RateLimit-f.rate.used))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(f.rate.reset.Unix()+1, 10))
	h.Set("X-RateLimit-Resource", "core")
	return time.Time{}, limited
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body)
	}
}

func fail(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]any{"message": message})
}

func number(r *http.Request, name string) int64 {
	n, _ := strconv.ParseInt(r.PathValue(name), 10, 64)
	return n
}

// page cuts one page out of a list, and names the next one in the header Link.
func page[T any](w http.ResponseWriter, r *http.Request, all []T, show func(T) map[string]any) []map[string]any {
	size, _ := strconv.Atoi(r.URL.Query().Get("per_page") + r.URL.Query().Get("limit"))
	at, _ := strconv.Atoi(r.URL.Query().Get("page"))
	if size <= 0 {
		size = 30
	}
	size, at = min(size, 100), max(at, 1)
	from, to := min((at-1)*size, len(all)), min(at*size, len(all))
	if to < len(all) {
		w.Header().Set("Link", fmt.Sprintf(`<http://forge%s?page=%d>; rel="next"`, r.URL.Path, at+1))
	}
	return lists.Of(all[from:to], show)
}
