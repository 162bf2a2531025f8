package sdk

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/xerrors"
)

// Client calls the API of a server. The zero value of every field but URL is useful; set them before the first call. It
// is safe for concurrent use. Errors that the server answers are *Error.
type Client struct {
	URL          *url.URL // of the server, as ParseURL makes it
	Token        string
	Organization string       // the server's default where empty
	HTTPClient   *http.Client // http.DefaultClient where nil; a timeout in it also ends claims that wait, and logs
	UserAgent    string
	Clock        quartz.Clock // paces retries; the real one where nil
}

// New makes a client for the server at rawURL, such as http://127.0.0.1:7080.
func New(rawURL, token string) (*Client, error) {
	u, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	return &Client{URL: u, Token: token}, nil
}

// ParseURL takes the address of a server, without /api/v1, and makes equal ones look the same. It must be http or
// https, with a host, and hold no password: tokens have a place of their own.
func ParseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, xerrors.Errorf("parse server address: %w", err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, xerrors.Errorf("parse server address %q: it must look like http://127.0.0.1:7080", u.Redacted())
	case u.User != nil:
		return nil, xerrors.Errorf("parse server address %q: it must hold no user name or password", u.Redacted())
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}, nil
}

// call is one request and what to do with its answer.
type call struct {
	method     string
	path       []string   // segments after /api/v1, not yet escaped
	query      url.Values // not that of the organization
	body       any        // sent as JSON where not nil
	content    io.Reader  // sent as it is where not nil, once
	size       int64      // of content; -1 where it is not known
	into       any        // the answer is decoded into it where not nil
	idempotent bool       // may be sent again: doing it twice is doing it once
}

// read asks for what is at a path. Reading changes nothing, so a request that failed is sent again.
func read(path ...string) call {
	return call{method: http.MethodGet, path: path, idempotent: true}
}

func post(path ...string) call   { return call{method: http.MethodPost, path: path} }
func put(path ...string) call    { return call{method: http.MethodPut, path: path} }
func remove(path ...string) call { return call{method: http.MethodDelete, path: path} }

// with adds a body.
func (r call) with(body any) call {
	r.body = body
	return r
}

// streaming adds content as the body. size is -1 where it is not known.
func (r call) streaming(content io.Reader, size int64) call {
	r.content, r.size = content, size
	if size == 0 {
		r.content = http.NoBody
	}
	return r
}

// repeatable says that doing it twice is doing it once: it is sent again if it failed.
func (r call) repeatable() call {
	r.idempotent = true
	return r
}

// query is what a request is narrowed by.
type query map[string]any

// where adds a query. What is zero is left out: it narrows nothing.
func (r call) where(q query) call {
	r.query = url.Values{}
	for name, value := range q {
		if reflect.ValueOf(value).IsZero() {
			continue
		}
		if t, ok := value.(time.Time); ok {
			value = t.Format(time.RFC3339Nano)
		}
		r.query.Set(name, fmt.Sprint(value))
	}
	return r
}

// filtered adds a filter as a query. The tags of its fields name them there, for the client and for the server.
func (r call) filtered(filter any) call {
	q, v := query{}, reflect.ValueOf(filter)
	for i := range v.NumField() {
		q[v.Type().Field(i).Tag.Get("query")] = v.Field(i).Interface()
	}
	return r.where(q)
}

// do makes a call, decoding the answer. Answers of no content leave into as it is.
func (c *Client) do(ctx context.Context, call call) error {
	resp, err := c.send(ctx, call)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if call.into == nil || resp.StatusCode == http.StatusNoContent {
		// Read to the end, so that the connection can be used again.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, errorLimit))
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(call.into); err != nil {
		return xerrors.Errorf("decode answer of %s %s: %w", call.method, resp.Request.URL.Path, err)
	}
	return nil
}

// send makes a call and returns the response, whose body the caller closes, if its status is one of success.
func (c *Client) send(ctx context.Context, call call) (*http.Response, error) {
	u, err := c.endpoint(call.path, call.query)
	if err != nil {
		return nil, err
	}
	if call.content != nil {
		return c.sendStream(ctx, call, u)
	}
	var body []byte
	if call.body != nil {
		if body, err = json.Marshal(call.body); err != nil {
			return nil, xerrors.Errorf("encode %s %s: %w", call.method, u.Path, err)
		}
	}
	resp, err := c.retry(ctx, call.idempotent, func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, call.method, u.String(), bytes.NewReader(body))
		if err != nil {
			return nil, xerrors.Errorf("build request: %w", err)
		}
		req.Header = c.header()
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		return c.httpClient().Do(req)
	})
	return succeeded(resp, err)
}

// succeeded is the answer to a call where it is one of success; else it is read as an error.
func succeeded(resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return nil, xerrors.Errorf("call server: %w", err)
	}
	if resp.StatusCode >= 300 {
		defer func() { _ = resp.Body.Close() }()
		return nil, readError(resp)
	}
	return resp, nil
}

func (c *Client) sendStream(ctx context.Context, call call, u *url.URL) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, call.method, u.String(), call.content)
	if err != nil {
		return nil, xerrors.Errorf("build request: %w", err)
	}
	req.ContentLength = call.size
	req.Header = c.header()
	req.Header.Set("Content-Type", "application/octet-stream")
	if call.size < 0 || call.size > expectFrom { // a refusal comes before the body then, and is not lost
		req.Header.Set("Expect", "100-continue")
	}
	return succeeded(c.httpClient().Do(req))
}

// expectFrom is the size in bytes from which on a body waits until it is asked for.
const expectFrom = 64 << 10

// endpoint is the address of a resource. A segment can hold anything, but not be empty or dots: these would address
// something else.
func (c *Client) endpoint(path []string, query url.Values) (*url.URL, error) {
	escaped := make([]string, len(path))
	for i, segment := range path {
		if segment == "" || segment == "." || segment == ".." {
			return nil, xerrors.Errorf("%q is not a name", segment)
		}
		escaped[i] = url.PathEscape(segment)
	}
	if c.Organization != "" {
		if query == nil {
			query = url.Values{}
		}
		query.Set("organization", c.Organization)
	}
	u, err := url.Parse(c.URL.String() + "/api/v1/" + strings.Join(escaped, "/"))
	if err != nil {
		return nil, xerrors.Errorf("build address: %w", err)
	}
	u.RawQuery = query.Encode()
	return u, nil
}

func (c *Client) header() http.Header {
	h := http.Header{"Accept": {"application/json, application/problem+json, text/plain"}}
	if c.Token != "" {
		h.Set("Authorization", "Bearer "+c.Token)
	}
	if c.UserAgent != "" {
		h.Set("User-Agent", c.UserAgent)
	}
	return h
}

func (c *Client) httpClient() *http.Client {
	return cmp.Or(c.HTTPClient, http.DefaultClient)
}

func (c *Client) clock() quartz.Clock {
	return cmp.Or(c.Clock, quartz.NewReal())
}

// ask makes a request and returns what it is answered with.
func ask[T any](ctx context.Context, c *Client, request call) (T, error) {
	var answer T
	request.into = &answer
	err := c.do(ctx, request)
	return answer, err
}

// get reads what is at a path.
func get[T any](ctx context.Context, c *Client, path ...string) (T, error) {
	return ask[T](ctx, c, read(path...))
}
