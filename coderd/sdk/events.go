package sdk

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"golang.org/x/xerrors"
)

// Topics of hints, and what their ids are.
const (
	TopicWorkspace  = "workspace" // its id
	TopicClaim      = "claim"     // its id
	TopicPreset     = "preset"    // its id
	TopicTemplate   = "template"  // its id
	TopicVersion    = "version"   // its id: a template has a new one
	TopicProvider   = "provider"  // its name
	TopicReplica    = "replica"   // its name
	TopicPause      = "pause"     // its scope
	TopicToken      = "token"     // its id
	TopicSigningKey = "signing-key"
	TopicAudit      = "audit"     // the number of the entry
	TopicForge      = "forge"     // the id of the entity
	TopicForgeJob   = "forge-job" // the id of the entity that jobs of came by
	TopicRunner     = "runner"    // the id of the entity that runners of have changed
)

// Hint says that something has changed, so that whoever shows it reads it again.
type Hint struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
}

// Events is one message of the stream.
type Events struct {
	// Everything may have changed: the first message of each stream, and one in place of very many hints.
	Everything bool   `json:"everything,omitempty"`
	Hints      []Hint `json:"hints,omitempty"`
	// ReconnectMS is how long to wait before connecting again once this stream has ended, in milliseconds: another time
	// for each stream, so that not all come at once. In the first message and the last.
	ReconnectMS int64 `json:"reconnect_ms,omitempty"`
}

// CloseUnauthorized is the status that ends a stream whose token is no longer valid: connecting again is of no use.
const CloseUnauthorized websocket.StatusCode = 4401

// EventStream is an open stream of events. One goroutine may read it.
type EventStream struct {
	conn      *websocket.Conn
	reconnect time.Duration
}

// eventsReadLimit is more than a message of as many hints as there can be in one.
const eventsReadLimit = 256 << 10 // bytes

// Events opens the stream of hints on what changes and the token may see.
func (c *Client) Events(ctx context.Context) (*EventStream, error) {
	conn, err := c.dial(ctx, "events")
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(eventsReadLimit)
	return &EventStream{conn: conn}, nil
}

// Next waits for a message. An *Error of status 401 is the end of the token; after all other errors the stream can be
// opened again, Reconnect later.
func (s *EventStream) Next(ctx context.Context) (Events, error) {
	var e Events
	err := wsjson.Read(ctx, s.conn, &e)
	if websocket.CloseStatus(err) == CloseUnauthorized {
		return e, &Error{
			Status: http.StatusUnauthorized, Title: http.StatusText(http.StatusUnauthorized),
			Detail: "the token is not valid any more",
		}
	}
	if err != nil {
		return e, xerrors.Errorf("read event: %w", err)
	}
	if e.ReconnectMS > 0 {
		s.reconnect = time.Duration(e.ReconnectMS) * time.Millisecond
	}
	return e, nil
}

// Reconnect is how long the server asks to wait before the stream is opened again.
func (s *EventStream) Reconnect() time.Duration { return s.reconnect }

// Close ends the stream.
func (s *EventStream) Close() { _ = s.conn.CloseNow() }
