// Package programtest writes programs that tests run.
package programtest

import (
	"os"
	"syscall"
	"testing"
)

// Write writes a program. No process is begun here meanwhile: a child would have the file open for writing until it runs its own
// program, and "text file busy" would keep everybody from running this one.
func Write(t testing.TB, path string, content []byte, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatalf("write program: %v", err)
	}
}
