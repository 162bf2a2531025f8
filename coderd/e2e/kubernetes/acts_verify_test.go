package kubernetes_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/chaos/userstest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// ours says whether a pod is a workspace of this installation, by its labels.
func (a *acts) ours(labels map[string]string, name string) bool {
	return labels[labelInstallation] == a.installation && labels[labelWorkspace] != "" && labels[labelIncarnation] != "" && labels[labelName] == name
}

// amiss says what is not as it should be yet: the pool is full, nothing is under way, the cluster has the pod of each live workspace
// and nothing else of ours, claimed ones show it, and an alarm names each claimed one whose pod is gone.
func (a *acts) amiss() string {
	a.t.Helper()
	presets, err := a.client.Presets(a.t.Context())
	require.NoError(a.t, err)
	for _, p := range presets {
		if c := p.Counts; c.Actual != c.Desired || c.Eligible != c.Desired ||
			c.Starting+c.Stopping+c.Deleting+c.Outdated+c.Extraneous+c.Expired+c.Waiting != 0 {
			return fmt.Sprintf("the pool is %+v", c)
		}
	}
	inventories, err := a.client.Inventories(a.t.Context(), "cluster")
	require.NoError(a.t, err)
	if b := inventories[0].Breaker; b != nil {
		return "the breaker is open: " + b.Reason
	}
	told := a.told()
	there := map[string]string{} // of ours, the workspace by the provider's id
	marked := map[string]bool{}
	for _, pod := range a.all() {
		if a.ours(pod.Labels, pod.Name) {
			there[idOf(pod)] = pod.Labels[labelWorkspace]
			marked[idOf(pod)] = pod.Labels[labelClaim] != ""
		}
	}
	for id, r := range a.rows() {
		_, has := there[id]
		delete(there, id)
		if r.state == "standby" && !has && a.gone[id] && a.volume(r.name) {
			delete(a.gone, id) // its pod was evicted while it was being stopped: that is what stopping takes
		}
		stays := r.state == "claimed" || r.state == "quarantined"
		switch {
		case r.state == "deleted" && has:
			return fmt.Sprintf("there is the pod %s of %s, which is deleted", id, r.name)
		case r.state == "deleted":
		case r.state == "standby" && (has || a.gone[id]), r.state != "standby" && has == (a.gone[id] && stays):
			return fmt.Sprintf("%s is %s; its pod %s is there: %t", r.name, r.state, id, has)
		case !has && r.state == "claimed" && !told[r.id]:
			return fmt.Sprintf("nobody was told that %s is claimed and missing", r.name)
		case has && r.state == "claimed" && !marked[id]:
			return fmt.Sprintf("%s is claimed, and its pod does not show it", r.name)
		case !has: // what only looks like it stays as long as it
			maps.DeleteFunc(there, func(_, workspace string) bool { return workspace == r.id })
		}
	}
	for id := range there {
		return fmt.Sprintf("there is the pod %s, which is no workspace's", id)
	}
	return a.volumesAmiss()
}

// volumesAmiss says of which volume claim there is no workspace, or the other way round.
func (a *acts) volumesAmiss() string {
	there := map[string]bool{}
	for name := range strings.FieldsSeq(a.kubectl("get", "persistentvolumeclaims", "-o", "name")) {
		there[strings.TrimPrefix(name, "persistentvolumeclaim/prewarm.")] = true
	}
	for id, r := range a.rows() {
		name := r.name + ".home"
		if strings.HasSuffix(id, "/home") && r.state != "deleted" && !there[name] && !a.gone[id] {
			return fmt.Sprintf("%s is %s, and has no volume", r.name, r.state)
		}
		if r.state != "deleted" {
			delete(there, name)
		}
	}
	for name := range there {
		return "there is the volume " + name + ", which is no workspace's"
	}
	return ""
}

// told are the workspaces that people were told are missing.
func (a *acts) told() map[string]bool {
	a.t.Helper()
	list, err := a.client.Audit(a.t.Context(), sdk.AuditFilter{Action: "workspace.missing", Limit: 200})
	require.NoError(a.t, err)
	all := map[string]bool{}
	for _, e := range list.Entries {
		all[e.TargetID] = true
	}
	return all
}

// verify holds what there is at the end against what the users and the test itself know.
func (a *acts) verify(users []*userstest.User) {
	a.t.Helper()
	pods := a.all()
	for name, was := range a.foreign {
		is := pods[name]
		if assert.NotNil(a.t, is, "the foreign pod %s is gone", name) {
			assert.Equal(a.t, was.UID, is.UID, name)
			assert.Nil(a.t, is.DeletionTimestamp, name)
			assert.Equal(a.t, was.Labels, is.Labels, name)
			assert.Equal(a.t, was.Annotations, is.Annotations, name)
		}
	}
	rows, there := a.rows(), map[string]bool{}
	ends := map[string]int{}
	for _, pod := range pods {
		there[idOf(pod)] = true
	}
	for uid, kind := range a.strays {
		end := "deleted"
		for _, pod := range pods {
			if string(pod.UID) == uid {
				end = "left alone"
				if _, recorded := rows[idOf(pod)]; recorded {
					end = "taken for what it claims to be"
				}
				assert.Equal(a.t, "made again", kind)
			}
		}
		ends[kind+", "+end]++
	}
	holds, missing := 0, 0
	for _, u := range users {
		for _, h := range u.Holds {
			holds++
			w, err := a.client.Workspace(a.t.Context(), h.ID.String())
			require.NoError(a.t, err)
			assert.Equal(a.t, "claimed", w.State, "workspace %s, which its user holds", h.Name)
			assert.Equal(a.t, &h.Claim, w.ClaimID)
			if !a.gone[h.ProviderID] { // what was stopped has been started meanwhile
				assert.True(a.t, there[h.ProviderID], "the pod of %s, which its user holds", h.Name)
				assert.Empty(a.t, w.Fault)
			} else {
				missing++
				assert.NotEmpty(a.t, w.Fault)
			}
		}
		for id := range u.Released {
			w, err := a.client.Workspace(a.t.Context(), id.String())
			require.NoError(a.t, err)
			assert.Equal(a.t, "deleted", w.State, "workspace %s, which its user released", w.Name)
		}
	}
	userstest.Exact(a.t, a.number)
	assert.Zero(a.t, a.number("SELECT count(*) FROM audit_log WHERE action = 'provider.resume'"), "a person closed the breaker")
	assert.Positive(a.t, a.tally.Hits.Load(), "nobody claimed anything")
	a.t.Logf("%d acts; %d claims (%d of them while the API server was away), %d misses, %d releases; %d held at the end, of which %d have no pod "+
		"any more; %d workspaces made; %d foreign pods untouched; with our labels, and not ours: %v",
		len(a.deeds), a.tally.Hits.Load(), a.tally.HitsAway.Load(), a.tally.Misses.Load(), a.tally.Releases.Load(), holds, missing, len(rows),
		len(a.foreign), ends)
}

func (a *acts) number(query string, args ...any) (n int) {
	a.t.Helper()
	require.NoError(a.t, a.store.Pool.QueryRow(a.t.Context(), query, args...).Scan(&n), query)
	return n
}

// report prints what was done.
func (a *acts) report() {
	times, hits := map[string]int{}, map[string]map[string]int{}
	for _, d := range a.deeds {
		times[d.act]++
		if hits[d.act] == nil {
			hits[d.act] = map[string]int{}
		}
		if d.hit != "" {
			hits[d.act][d.hit]++
		}
	}
	table := "\n| act | times | what it hit |\n| --- | --- | --- |\n"
	for _, name := range slices.Sorted(maps.Keys(times)) {
		var all []string
		for _, hit := range slices.Sorted(maps.Keys(hits[name])) {
			all = append(all, fmt.Sprintf("%d %s", hits[name][hit], hit))
		}
		table += fmt.Sprintf("| %s | %d | %s |\n", name, times[name], strings.Join(all, ", "))
	}
	a.t.Log(table)
}

// volume says whether the volume claim of a workspace is there, and stays.
func (a *acts) volume(workspace string) bool {
	a.t.Helper()
	claim := a.kubectl("get", "persistentvolumeclaim", "prewarm."+workspace+".home", "--ignore-not-found", "-o", "jsonpath={.metadata.name} {.metadata.deletionTimestamp}")
	return strings.TrimSpace(claim) == "prewarm."+workspace+".home"
}
