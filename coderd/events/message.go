package events

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

// Message is what a stream is told at once. Streams of the same audience share one, which is encoded once.
type Message struct {
	sdk.Events
	encode sync.Once
	json   []byte
}

// JSON is the message as it is sent.
func (m *Message) JSON() []byte {
	m.encode.Do(func() {
		var b bytes.Buffer
		_ = json.NewEncoder(&b).Encode(m.Events) // text and numbers: cannot fail
		m.json = b.Bytes()
	})
	return m.json
}

func everything() *Message { return &Message{Events: sdk.Events{Everything: true}} }

// of is a message of hints in order, none of them twice. Past the bound it is everything, and says so.
func of(hints []sdk.Hint) (m *Message, overflow bool) {
	slices.SortFunc(hints, func(a, b sdk.Hint) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	if hints = slices.Compact(hints); len(hints) > maxPending {
		return everything(), true
	}
	return &Message{Events: sdk.Events{Hints: hints}}, false
}

// audience is who hears the same.
type audience struct {
	organization uuid.UUID
	role         database.Role
	user         uuid.UUID // uuid.Nil where the role sees all that anybody of it may
}

func audienceOf(who auth.Identity) audience {
	a := audience{organization: who.OrganizationID, role: who.Role}
	for _, action := range topics {
		if who.Part(action) == auth.Own {
			a.user = who.UserID
		}
	}
	return a
}

// edition makes the messages of one look.
type edition struct {
	changes  []change
	messages map[audience]*Message
}

// to is the message for an audience, of which who is one; nil where nothing concerns it.
func (e *edition) to(a audience, who auth.Identity) *Message {
	m, made := e.messages[a]
	if made {
		return m
	}
	var hints []sdk.Hint
	for _, c := range e.changes {
		if c.concerns(who) {
			hints = append(hints, c.hint)
		}
	}
	if len(hints) > 0 {
		m, _ = of(hints)
	}
	e.messages[a] = m
	return m
}
