package storm_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/chaos/judge"
	"github.com/prewarm-dev/prewarm/database"
)

var (
	anyID    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	anyState = regexp.MustCompile(`SQLSTATE \w+`)
)

// story is what is known of the workspace that a violation names, and of the clients whose claims had it, to find the cause by.
func (w *world) story(store *database.Store, violation string, evidence judge.Evidence) string {
	id, err := uuid.Parse(anyID.FindString(violation))
	if err != nil {
		return ""
	}
	var s strings.Builder
	at := func(t time.Time) string { return fmt.Sprintf("  %7.2f s ", t.Sub(w.began).Seconds()) }
	for _, e := range evidence.Events {
		if e.WorkspaceID == id {
			fmt.Fprintf(&s, "%s cloud: %s deleted=%t\n", at(e.NotAfter), e.ProviderID, e.Deleted)
		}
	}
	rows, err := store.Pool.Query(context.Background(), `SELECT at, 'state: ' || to_state || ' (' || reason || ')'
		FROM workspace_history WHERE workspace_id = $1
		UNION ALL SELECT coalesce(finished_at, due_at), 'job: ' || kind || ' ' || state || ' by ' || leased_by || ', attempt '
		|| attempt || ', failures ' || failures || ' ' || last_error FROM jobs WHERE workspace_id = $1
		UNION ALL SELECT created_at, 'claim: ' || state || ', bound ' || bound_at || ', key ' || coalesce(idempotency_key, 'none')
		FROM claims WHERE workspace_id = $1
		UNION ALL SELECT at, 'audit: ' || action || ' from ' || source FROM audit_log WHERE target_id = ($1::uuid)::text ORDER BY 1`, id)
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	var claimed []time.Time
	for rows.Next() {
		var when time.Time
		var what string
		if err := rows.Scan(&when, &what); err != nil {
			return err.Error()
		}
		fmt.Fprintln(&s, at(when), what)
		if strings.HasPrefix(what, "claim: ") {
			claimed = append(claimed, when)
		}
	}
	for _, c := range evidence.Claims {
		if strings.Contains(s.String(), "key "+c.Key+"\n") {
			fmt.Fprintf(&s, "%s client: asked with key %s, answered %s: %v\n", at(c.Asked), c.Key, at(c.Answered), c.Workspaces)
		}
	}
	for _, when := range claimed {
		s.WriteString(w.around(when))
	}
	return s.String()
}

// around is what all replicas said shortly before a moment, and just after it.
func (w *world) around(when time.Time) string {
	var s strings.Builder
	for _, r := range w.replicas {
		for server, older := range r.servers {
			if lines := server.LogBetween(when.Add(-5*time.Second), when.Add(2*time.Second)); lines != "" {
				fmt.Fprintf(&s, "%s, the binary before: %t\n%s", r.options.Replica, older, lines)
			}
		}
	}
	return s.String()
}

// logged is what the server that answered a request said of it, and whether that was the binary before.
func (w *world) logged(request string) (lines string, older bool) {
	for _, r := range w.replicas {
		for server, older := range r.servers {
			if lines := server.LogAround(request); request != "" && lines != "" {
				return r.options.Replica + ": " + lines, older
			}
		}
	}
	return "", false
}
