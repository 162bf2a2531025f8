package hints_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/hints"
)

func TestBell(t *testing.T) {
	t.Parallel()
	bell := hints.NewBell()
	bell.Ring()
	bell.Ring() // does not block, and is one with the first
	<-bell
	select {
	case <-bell:
		t.Fatal("two rings that nobody looked after are one")
	default:
	}
	bell.Ring() // while the loop is at work
	<-bell
}

// wire is the way to the other replicas.
type wire struct {
	mu   sync.Mutex
	sent []string
	dead bool // takes no hint until its context ends
}

func (w *wire) Publish(ctx context.Context, channel, payload string) error {
	if w.dead {
		<-ctx.Done()
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, channel+" "+payload)
	return nil
}

// ears notes what it hears.
func ears(heard *[]string, waits bool) hints.Ears {
	note := func(what string) func() { return func() { *heard = append(*heard, what) } }
	return hints.Ears{
		Nudge: func(templates ...uuid.UUID) {
			for _, t := range templates {
				note("nudge " + t.String())()
			}
		},
		Refill: func(template uuid.UUID) { note("refill " + template.String())() },
		Wake:   note("wake"), Claimed: note("claimed"), Released: func(what string) { note("released" + what)() }, Providers: note("providers"), Inbox: note("inbox"),
		Demand: note("demand"), Settle: note("settle"), Any: note("any"),
		Bound:       func(claim uuid.UUID) bool { note("bound " + claim.String())(); return waits },
		HeardNudge:  func(payload string) { note("heard nudge " + payload)() },
		MissedBound: note("missed bound"), MissedNudges: note("missed nudges"),
	}
}

// Each line says of a hint who hears it here, and what the others are told.
func TestHints(t *testing.T) {
	t.Parallel()
	claim, template := uuid.New(), uuid.New()
	for name, c := range map[string]struct {
		say    func(*hints.Hints)
		waits  bool
		heard  []string
		others []string
	}{
		"nudge": {func(h *hints.Hints) { h.Nudge(template) }, false, []string{"nudge " + template.String()}, nil},
		"refill": {
			func(h *hints.Hints) { h.Refill(template) }, false, []string{"refill " + template.String()}, nil,
		},
		"wake": {(*hints.Hints).Wake, false, []string{"wake"}, []string{"prewarm_jobs "}},
		"here": {(*hints.Hints).WakeHere, false, []string{"wake"}, nil},
		"bound, and waits elsewhere": {
			func(h *hints.Hints) { h.Bound(claim, template) }, false,
			[]string{"bound " + claim.String(), "nudge " + template.String()},
			[]string{"prewarm_claim " + claim.String()},
		},
		"bound, and waits here": {
			func(h *hints.Hints) { h.Bound(claim, template) }, true,
			[]string{"bound " + claim.String(), "nudge " + template.String()},
			nil,
		},
		"claimed":   {(*hints.Hints).Claimed, false, nil, []string{"prewarm_claimed "}},
		"released":  {func(h *hints.Hints) { h.Released("x") }, false, nil, []string{"prewarm_released x"}},
		"providers": {(*hints.Hints).ProvidersChanged, false, []string{"providers"}, []string{"prewarm_providers "}},
		"inbox":     {(*hints.Hints).InboxFull, false, nil, []string{"prewarm_inbox "}},
		"demand":    {(*hints.Hints).DemandChanged, false, []string{"demand"}, nil},
		"settle":    {(*hints.Hints).Settle, false, []string{"settle"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var w wire
				var heard []string
				h := hints.New(t.Context(), &w, slog.Make())
				h.Connect(ears(&heard, c.waits))
				c.say(h)
				synctest.Wait()
				require.Equal(t, c.heard, heard)
				require.Equal(t, c.others, w.sent)
			})
		})
	}
}

// Whoever says something waits for nobody, or for a second at most; and nothing is said when the replica has ended.
func TestPublish_isBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		h := hints.New(ctx, &wire{dead: true}, slog.Make())
		began := time.Now()
		h.Wake()
		h.ProvidersChanged()
		h.InboxFull()
		require.Zero(t, time.Since(began))
		h.Bound(uuid.New(), uuid.New())
		require.Equal(t, time.Second, time.Since(began))
		end()
		h.Claimed()
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestHeard(t *testing.T) {
	t.Parallel()
	var heard []string
	h := hints.Local(ears(&heard, false))
	claim := uuid.New()
	h.Heard(hints.Nudges, "x")
	h.Heard(hints.Bindings, claim.String())
	h.Heard(hints.Bindings, "no id")
	for _, channel := range hints.Channels()[2:] {
		h.Heard(channel, "")
	}
	require.Equal(t, []string{
		"any", "heard nudge x", "any", "bound " + claim.String(), "any", "any", "claimed", "any", "released", "any", "wake",
		"any", "providers", "any", "inbox",
	}, heard)

	heard = nil
	for _, channel := range hints.Channels() {
		h.Missed(channel)
	}
	heard = slices.DeleteFunc(heard, func(s string) bool { return s == "any" })
	require.Equal(t, []string{"missed nudges", "missed bound", "claimed", "released", "wake", "providers", "inbox"}, heard)
}

// Nobody hears, and nobody is told.
func TestHints_ofNobody(t *testing.T) {
	t.Parallel()
	h := hints.Local(hints.Ears{})
	h.Nudge(uuid.New())
	h.Cause(t.Context(), uuid.New())
	h.Wake()
	h.Bound(uuid.New(), uuid.New())
	h.Claimed()
	h.Released("x")
	for _, channel := range hints.Channels() {
		h.Heard(channel, uuid.NewString())
		h.Missed(channel)
	}
}

// What is added while nobody takes is taken once, and the bell has rung.
func TestTodo(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	todo := hints.NewTodo()
	require.Empty(t, todo.Take())
	todo.Add(a)
	todo.Add(a, b)
	<-todo.Wake
	require.ElementsMatch(t, []uuid.UUID{a, b}, todo.Take())
	require.Empty(t, todo.Take())
	todo.Add(b)
	require.Len(t, todo.Wake, 1)
}
