//go:build !linux

package embedded

// orphans finds the postmaster. Its children end with it, and PostgreSQL itself refuses to start before they are gone.
func orphans(cluster string) []int {
	if pid := postmasterPID(cluster); pid != 0 && alive(pid) {
		return []int{pid}
	}
	return nil
}
