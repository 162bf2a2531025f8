//go:build !race

package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// execute runs a statement, or lets it fail.
func (w *world) execute(c *call, f fate) {
	t := c.tx
	if t != nil && (t.broken && !c.gaveUp || c.mark != markBegin && t.s == nil) {
		c.answer(answer{err: errLost})
		return
	}
	if f == fateSerialization || f == fateDeadlock {
		w.note("%s %s [%s]", c.p.name, c.name, f)
		w.lose(t)
		t.broken, t.closed = false, true
		e := &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: f.String(), Message: "simulated"}
		c.answer(answer{err: e})
		return
	}
	if f == fateLostBefore {
		w.note("%s %s [%s]", c.p.name, c.name, f)
		if t != nil {
			w.lose(t)
		}
		c.answer(answer{err: errLost})
		return
	}
	now := w.now()
	s := (*session)(nil)
	switch {
	case c.mark == markBegin:
		w.pg.outside(func() { s = w.pg.take() })
		t.s, t.began, t.touch = s, now, time.Now()
		w.model.begun(t)
	case t != nil:
		s = t.s
		t.touch = time.Now()
		if t.iso == pgx.RepeatableRead {
			now = t.began
		}
	default:
		w.pg.outside(func() { s = w.pg.take() })
	}
	if t != nil && c.mark == markQuery && s.conn.PgConn().TxStatus() == 'E' || c.mark == markCommit || c.mark == markRollback {
		now = time.Time{}
	}
	var a answer
	w.pg.outside(func() { c.st, a = w.pg.start(s, now, c.sql, c.args) })
	c.since = time.Now()
	if a.blocked {
		w.fired("waits for a lock")
		w.note("%s %s waits for a lock", c.p.name, c.name)
		w.blocked = append(w.blocked, c)
		return
	}
	w.finish(c, a, f)
	w.unblock()
}

// framework are statements around those that do something.
var framework = map[string]bool{
	"begin": true, "commit": true, "rollback": true, "savepoint": true, "release savepoint": true, "SetPassTimeouts": true,
}

// idleLooks are statements that replicas repeat all the time. They are no steps where they find nothing.
var idleLooks = map[string]bool{
	"LeaseJobs": true, "DueIntents": true, "DueMoves": true, "UndeliveredClaims": true, "SilentReady": true, "BindOldest": true,
	"LeaseDeliveries": true, "UnboundForgeJobs": true, "QueuedForgeJobs": true, "EnsureForgeStatus": true, "LeaseRounds": true,
	"BindRunnerJobs": true, "CloseRunners": true, "RunnersToSettle": true, "HastenDrains": true, "DeliveriesKnown": true,
	"ForgeRepositories": true, "ForgeJobsToAsk": true, "StoreAsked": true,
}

// rounds are statements that replicas repeat all the time, and that always find something, or write when they last looked.
var rounds = map[string]bool{
	"NextDue": true, "LockForgeJobs": true, "RunnerPresets": true, "BusyRunners": true, "EntityBalances": true,
	"RunnersListed": true, "RoundListed": true, "EndRound": true, "DeliveryProgress": true, "GetNow": true,
	"StoreDeliveryProgress": true, "StoreJobsListed": true,
}

func (c *call) answer(a answer) { c.give(reply{answer: a}) }

// finish is what follows from a statement's answer.
func (w *world) finish(c *call, a answer, f fate) {
	t := c.tx
	w.blocked = slices.DeleteFunc(w.blocked, func(o *call) bool { return o == c })
	w.note("%s %s %s%s", c.p.name, c.name, tagOf(a), suffix(f))
	writes := strings.Contains(c.sql, "INSERT") || strings.Contains(c.sql, "UPDATE") || strings.Contains(c.sql, "DELETE")
	wrote := a.err == nil && writes && a.tag.RowsAffected() > 0
	if t != nil {
		t.wrote = t.wrote || a.err == nil && writes
		wrote = c.mark == markCommit && a.err == nil && t.wrote
		if a.err == nil {
			w.linger(c)
			w.model.purpose(c, a)
		}
	}
	if c.name == "SetPassTimeouts" && a.err == nil {
		t.pass = true
		w.pg.outside(func() {
			_ = t.s.simple("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")
		})
	}
	if c.name == "SetReturnTimeout" && a.err == nil { // it would be told by the clock on the wall, and seeds not be repeated
		w.pg.outside(func() { _ = t.s.simple("SET LOCAL lock_timeout = 0") })
	}
	if c.name == "EndPassLockHolder" && len(a.rows) == 0 && a.tag.RowsAffected() > 0 {
		w.watchdog(c)
	}
	if a.err == nil && (framework[c.name] || idleLooks[c.name] && a.tag.RowsAffected() == 0 || rounds[c.name]) {
		w.idle++
	}
	w.model.judge(c, a)
	if f == fateLostAfter {
		a = answer{err: errLost}
		if t != nil && c.mark != markCommit && c.mark != markRollback {
			w.lose(t)
		}
	} else {
		w.post(c, a)
	}
	if wrote {
		w.model.look(c)
	}
	w.letGo(c)
	if t != nil && c.gaveUp {
		w.lose(t)
	}
	c.give(reply{answer: a})
}

// letGo gives the session back that a call no longer needs.
func (w *world) letGo(c *call) {
	t := c.tx
	switch {
	case t == nil:
		s := c.st.s
		w.pg.outside(func() { w.pg.put(s) })
	case t.s != nil && (c.mark == markCommit || c.mark == markRollback || t.s.conn.IsClosed()):
		w.lose(t)
	}
	c.st = nil
}

// lose ends a transaction without a commit, or what is left of it after one.
func (w *world) lose(t *tx) {
	t.broken = true
	w.model.ended(t)
	if t.s == nil {
		return
	}
	s := t.s
	t.s = nil
	for _, c := range slices.Clone(w.blocked) {
		if c.tx == t {
			w.pg.outside(func() { w.pg.interrupt(c.st) })
			w.blocked = slices.DeleteFunc(w.blocked, func(o *call) bool { return o == c })
			c.give(reply{err: errLost})
		}
	}
	w.pg.outside(func() { s.end(); w.pg.put(s) })
	w.unblock()
}

// unblock looks which of the waiting statements have got their lock.
func (w *world) unblock() {
	for _, c := range slices.Clone(w.blocked) {
		if !slices.Contains(w.blocked, c) {
			continue
		}
		var a answer
		w.pg.outside(func() { a = w.pg.await(c.st) })
		if !a.blocked {
			w.finish(c, a, fateGood)
			w.unblock()
			return
		}
	}
}

func (w *world) waits(t *tx) bool {
	return slices.ContainsFunc(w.blocked, func(c *call) bool { return c.tx == t })
}

// watchdog: the backend of a frozen holder was ended.
func (w *world) watchdog(c *call) {
	w.fired("watchdog ends a holder")
	pid, _ := c.args[0].(int32)
	for _, t := range slices.Clone(w.model.open) {
		if t.s != nil && t.s.pid == uint32(pid) {
			w.pg.outside(func() { w.pg.awaitGone(t.s.pid); _ = t.s.simple("") })
			w.lose(t)
		}
	}
}

// post addresses what a statement notified to every process that listens, the sender too.
func (w *world) post(_ *call, a answer) {
	heard := slices.Clone(a.heard)
	slices.SortFunc(heard, func(x, y *pgconn.Notification) int { return strings.Compare(x.Payload, y.Payload) })
	for _, n := range heard {
		for _, p := range w.processes {
			if !p.dead {
				w.mail = append(w.mail, letter{p, n.Channel, n.Payload})
			}
		}
	}
}

func tagOf(a answer) string {
	if a.err != nil {
		return outcomeOf(a.err)
	}
	return a.tag.String()
}
