//go:build !linux

package serve

// ended is not known here.
func ended(int) bool { return false }
