package sdk

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// Error is what the server says went wrong: a problem of RFC 9457. Detail is written for people.
type Error struct {
	Status int           `json:"status"`
	Title  string        `json:"title"`
	Detail string        `json:"detail"`
	Errors []ErrorDetail `json:"errors"`

	retryAfter time.Duration
}

// RetryAfter is how long the server wants to be left alone by who it refused; 0 where it does not say.
func RetryAfter(err error) time.Duration {
	if e, is := errors.AsType[*Error](err); is {
		return e.retryAfter
	}
	return 0
}

// ErrorDetail is one of several things wrong. Location is where: "file:line:col" of an applied document, or a path into
// the request such as "body.mode".
type ErrorDetail struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty"`
	Value    any    `json:"value,omitempty"`
}

func (d ErrorDetail) String() string {
	if d.Location == "" {
		return d.Message
	}
	return d.Location + ": " + d.Message
}

// Error has the detail on the first line, and each thing wrong on a line of its own.
func (e *Error) Error() string {
	lines := []string{cmp.Or(e.Detail, e.Title, fmt.Sprintf("the server answered %d", e.Status))}
	for _, d := range e.Errors {
		lines = append(lines, "  "+d.String())
	}
	return strings.Join(lines, "\n")
}

// StatusOf is the HTTP status by which the server refused, 0 if err is of another kind.
func StatusOf(err error) int {
	if e, is := errors.AsType[*Error](err); is {
		return e.Status
	}
	return 0
}

// errorLimit bounds how much of an error's body is read, in bytes.
const errorLimit = 1 << 20

// readError makes an Error of a response. What is not a problem document comes from something in between, such as a
// proxy: of plain text the first line is told, of anything else only the status.
func readError(resp *http.Response) *Error {
	e := &Error{}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, errorLimit))
	switch mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); mediaType {
	case "application/problem+json", "application/json":
		if json.Unmarshal(body, e) != nil {
			*e = Error{}
		}
	case "text/plain":
		e.Detail, _, _ = strings.Cut(strings.TrimSpace(string(body)), "\n")
	}
	e.Status = resp.StatusCode
	e.retryAfter, _ = retryAfter(resp)
	e.Title = cmp.Or(e.Title, http.StatusText(resp.StatusCode))
	if e.Detail == "" && len(e.Errors) == 0 {
		e.Detail = strings.TrimSpace(fmt.Sprintf("the server answered %d %s", e.Status, e.Title))
	}
	return e
}
