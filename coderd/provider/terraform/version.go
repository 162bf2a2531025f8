package terraform

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/xerrors"
)

// The oldest version whose commands say what runs read, and how long it may take to say which it is.
const (
	oldestMajor, oldestMinor = 1, 6
	versionWithin            = 10 * time.Second
)

// version asks the program which it is, as a run would: so it is seen here if the users of runs cannot run it.
func version(ctx context.Context, o Options) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, o.Program, "version", "-json")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = o.Root, clean("/nonexistent", o.Root), attributes(newUID())
	cmd.WaitDelay = pipeGrace
	runtime.LockOSThread() // as for a run
	defer runtime.UnlockOSThread()
	said, err := cmd.Output()
	if err != nil {
		return "", xerrors.Errorf("ask %s for its version: %w", o.Program, err)
	}
	var is struct {
		Version string `json:"terraform_version"` // OpenTofu calls it so too
	}
	var major, minor int
	if json.Unmarshal(said, &is) != nil {
		return "", notOurs(o)
	}
	if _, err := fmt.Sscanf(is.Version, "%d.%d", &major, &minor); err != nil {
		return "", notOurs(o)
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return "", xerrors.Errorf("%s is version %s, which is too old: install %d.%d or newer, or name another: config: {program: /path/of/it}",
			o.Program, is.Version, oldestMajor, oldestMinor)
	}
	return is.Version, nil
}

func notOurs(o Options) error {
	return xerrors.Errorf("%s does not say its version as OpenTofu and Terraform do: is it one of them?", o.Program)
}
