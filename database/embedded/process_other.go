//go:build !linux

package embedded

import "syscall"

// dieWithParent has no means here: the next start ends what was left behind.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
