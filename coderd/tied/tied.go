// Package tied starts processes that end with this one, however it ends. Tests and benchmarks use it.
package tied

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Start starts a process that the kernel kills when this one is gone. The kernel watches the thread that started the
// process, so one thread that never ends starts them all.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	done := make(chan error)
	starter() <- func() { done <- cmd.Start() }
	return <-done
}

var starter = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for do := range todo {
			do()
		}
	}()
	return todo
})
