package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cloudbase/garm-provider-common/cloudconfig"
	"github.com/cloudbase/garm-provider-common/params"
	"golang.org/x/xerrors"
)

// An instance that boots is a folder with the home of its user, and a session of processes: that of the script which the
// protocol's library makes for a first boot. Nothing of it needs root.

func (c *cloud) home(name string) string { return filepath.Join(c.config.Root, "machines", name) }

// boot runs the script of the instance's first boot.
func (c *cloud) boot(b params.BootstrapInstance) error {
	script, err := cloudconfig.GetRunnerInstallScript(b, b.Tools[0], b.Name)
	if err != nil {
		return xerrors.Errorf("render the script: %w", err)
	}
	home := c.home(b.Name)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return xerrors.Errorf("make home: %w", err)
	}
	path := filepath.Join(home, "install_runner.sh")
	if err := os.WriteFile(path, script, 0o700); err != nil {
		return xerrors.Errorf("write script: %w", err)
	}
	console, err := os.Create(filepath.Join(home, "console"))
	if err != nil {
		return xerrors.Errorf("make console: %w", err)
	}
	defer console.Close()
	machine := exec.Command(path)
	if c.config.Machine != "" {
		data, err := cloudconfig.GetCloudConfig(b, b.Tools[0], b.Name)
		if err != nil {
			return xerrors.Errorf("render user data: %w", err)
		}
		path := filepath.Join(home, "user-data")
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			return xerrors.Errorf("write user data: %w", err)
		}
		machine = exec.Command(c.config.Machine, path)
	}
	machine.Dir, machine.Stdout, machine.Stderr = home, console, console
	// A machine on which a test runs may have systemd, and trusts whom it does. Neither is the instance's.
	machine.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "PREWARM_AGENT_SERVICE=no", "PREWARM_AGENT_TRUST=no"}
	machine.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := machine.Start(); err != nil {
		return xerrors.Errorf("boot: %w", err)
	}
	return os.WriteFile(filepath.Join(home, "session"), strconv.AppendInt(nil, int64(machine.Process.Pid), 10), 0o600)
}

// halt ends the instance's processes, and removes its folder.
func (c *cloud) halt(name string) error {
	raw, err := os.ReadFile(filepath.Join(c.home(name), "session"))
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(c.home(name))
	}
	if err != nil {
		return xerrors.Errorf("read session: %w", err)
	}
	for {
		pids := processesOf(string(raw))
		if len(pids) == 0 {
			return os.RemoveAll(c.home(name))
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// processesOf are the processes of a session, zombies apart.
func processesOf(session string) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // state, parent, group, session
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && fields[0] != "Z" && fields[3] == session {
			pids = append(pids, pid)
		}
	}
	return pids
}
