package alerts

import "github.com/prometheus/client_golang/prometheus"

var (
	descForgeUp = gauge("prewarm_forge_up",
		"1 where the last round of asking a forge ended well, 0 where it failed or had to wait for a limit.", "forge")
	descForgeRate = gauge("prewarm_forge_rate_remaining",
		"Requests that are left until a forge's limit is reset; missing where it says nothing of one.", "forge")
	descForgeJobs = gauge("prewarm_forge_jobs",
		"Jobs of a forge that are not over, by state (waiting, queued, in_progress), and as unserved those of the queued "+
			"ones that nothing can serve.", "forge", "state")
	descForgeOldest = gauge("prewarm_forge_oldest_queued_seconds",
		"For how long the job of a forge that has been queued longest has been; 0 where none is.", "forge")
	descForgeRunners = gauge("prewarm_forge_runners",
		"Runners of workspaces that are there, by what their forge last said of them.", "forge", "status")
)

// sendForges tells of forges, each with all its states and statuses: a count that is missing would be taken for the last.
func sendForges(send func(d *prometheus.Desc, value float64, labels ...string), snap *Snapshot) {
	for _, f := range snap.Forges {
		if f.Asked {
			send(descForgeUp, flag(f.Up), f.Forge)
		}
		if f.RateLimit > 0 {
			send(descForgeRate, float64(f.RateRemaining), f.Forge)
		}
		for state, n := range map[string]int32{
			"waiting": f.Waiting, "queued": f.Queued, "in_progress": f.InProgress, "unserved": f.Unserved,
		} {
			send(descForgeJobs, float64(n), f.Forge, state)
		}
		send(descForgeOldest, f.OldestS, f.Forge)
		for status, n := range runnersOf(snap, f.Forge) {
			send(descForgeRunners, float64(n), f.Forge, status)
		}
	}
}

func runnersOf(snap *Snapshot, forge string) map[string]int32 {
	by := map[string]int32{"pending": 0, "idle": 0, "active": 0, "offline": 0, "gone": 0}
	for _, r := range snap.Runners {
		if r.Forge == forge {
			by[string(r.Status)] = r.Runners
		}
	}
	return by
}
