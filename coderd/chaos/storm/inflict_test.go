package storm_test

import (
	"context"
	"sync"
	"testing"
	"time"
)

// inflict makes the faults of the schedule, each at its time or as soon as what it is about is whole again, and returns
// when all are over.
func (w *world) inflict(ctx context.Context, all []fault) {
	var running sync.WaitGroup
	defer running.Wait()
	began := time.Now()
	for _, f := range all {
		if !rest(ctx, f.at-time.Since(began)) {
			return
		}
		running.Go(func() { w.one(ctx, f) })
	}
}

func (w *world) one(ctx context.Context, f fault) {
	switch {
	case f.kind == "roll replicas":
		w.roll(f)
	case kinds[f.kind].replica:
		r := w.replicas[f.target]
		r.mu.Lock()
		defer r.mu.Unlock()
		w.note(f)
		w.hurtReplica(ctx, r, f)
	default:
		w.postgres.mu.Lock()
		defer w.postgres.mu.Unlock()
		w.note(f)
		w.hurtDatabase(ctx, f)
	}
}

func (w *world) hurtReplica(ctx context.Context, r *replica, f fault) {
	bad := func(l *link, toxics ...string) {
		if len(toxics) == 0 {
			l.cut()
		}
		for _, toxic := range toxics {
			l.spoil(toxic)
		}
		rest(ctx, f.lasts)
		l.heal()
	}
	switch f.kind {
	case "kill replica":
		r.kill()
		rest(ctx, f.lasts)
		r.start(w.binary(r))
	case "freeze replica":
		if r.server != nil {
			r.freeze(ctx, f.lasts)
		}
	case "restart replica":
		r.stop()
		rest(ctx, f.lasts)
		r.start(w.binary(r))
	case "cut database link":
		bad(r.toDB)
	case "swallow to database":
		bad(r.toDB, swallowUp)
	case "swallow from database":
		bad(r.toDB, swallowDown)
	case "slow database link":
		bad(r.toDB, slow)
	case "reset database link":
		bad(r.toDB, reset)
	case "cut client link":
		bad(r.toIt)
	case "swallow answers":
		bad(r.toIt, swallowDown)
	case "reset client link":
		bad(r.toIt, reset)
	default:
		w.t.Errorf("nobody knows how to %s", f.kind)
	}
}

func (w *world) hurtDatabase(ctx context.Context, f fault) {
	switch f.kind {
	case "kill database":
		w.postgres.kill()
	case "kill backend":
		w.postgres.killBackend(f.chance)
	case "restart database":
		w.postgres.shutDown()
	case "lose database":
		if err := w.postgres.lose(ctx, f.chance); err != nil {
			w.t.Errorf("lose the database: %v", err)
		}
		for _, r := range w.replicas {
			r.toDB.lead(w.postgres.address())
		}
	case "freeze database":
		thaw := w.postgres.freeze()
		rest(ctx, f.lasts)
		thaw()
	case "fill disk":
		empty := w.postgres.fill()
		rest(ctx, f.lasts)
		empty()
	default:
		w.t.Errorf("nobody knows how to %s", f.kind)
	}
}

// roll brings all replicas to the other binary, one at a time, each by an orderly stop; from the new one back to the one
// before, if that is what they run.
func (w *world) roll(f fault) {
	w.rolling.Lock()
	defer w.rolling.Unlock()
	older := !w.replicas[0].older
	w.note(f)
	for _, r := range w.replicas {
		r.mu.Lock()
		r.stop()
		r.older = older
		r.start(w.binary(r))
		r.mu.Unlock()
	}
}

func (w *world) binary(r *replica) string {
	if r.older {
		return w.older
	}
	return ""
}

func (w *world) note(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[f.kind]++
	if testing.Verbose() {
		w.t.Logf("%s (at %.1f s)", f, time.Since(w.began).Seconds())
	}
}
