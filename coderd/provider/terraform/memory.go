package terraform

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/docker/go-units"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/prometheus/procfs"
	"golang.org/x/sync/semaphore"
	"golang.org/x/xerrors"
)

// Memory is what runs may use, in bytes. 0 is the default.
type Memory struct {
	Run   int64 // each of them
	Total int64 // all that are under way at a time, by the former
}

// defaultRunMemory is for one run: the plugins of large clouds take some hundred MiB, and a plan of thousands of resources more.
const defaultRunMemory = 2 << 30

// or fills in the defaults. Few runs take what they may, so that all together may be promised what the machine has.
func (m Memory) or() (Memory, error) {
	if m.Run == 0 {
		m.Run = defaultRunMemory
	}
	if m.Total == 0 {
		proc, err := procfs.NewDefaultFS()
		if err != nil {
			return m, xerrors.Errorf("read the machine's memory: %w", err)
		}
		has, err := proc.Meminfo()
		if err != nil {
			return m, xerrors.Errorf("read the machine's memory: %w", err)
		}
		if has.MemTotalBytes == nil {
			return m, xerrors.New("the machine does not say how much memory it has: set memory.total in the provider's configuration")
		}
		m.Total = max(m.Run, int64(*has.MemTotalBytes))
	}
	if m.Total < m.Run {
		return m, xerrors.Errorf("memory.total: %s is less than a run may use, %s", size(m.Total), size(m.Run))
	}
	return m, nil
}

func size(bytes int64) string { return units.BytesSize(float64(bytes)) }

// room is for as many runs as there is memory for.
func (m Memory) room() *semaphore.Weighted { return semaphore.NewWeighted(m.Total / m.Run) }

// enter waits until there is memory for another run.
func (r *Runner) enter(ctx context.Context) (leave func(), err error) {
	if err := r.room.Acquire(ctx, 1); err != nil {
		return nil, xerrors.Errorf("wait for memory for another run: %w", err)
	}
	return func() { r.room.Release(1) }, nil
}

// groups is the control group that has those of runs, which have the names of the runs' directories.
const groups = "/prewarm-terraform"

// group is a control group whose processes may use so much memory. Without one (nil) nothing bounds it.
type group interface {
	add(pid int) error
	kills() uint64 // how often the kernel has ended one of its processes for the sake of the limit
	remove() error // after all processes have ended
}

// newGroup makes one. It is an error where there are no control groups, or this process may not make any.
func newGroup(name string, most int64) (group, error) {
	path := filepath.Join(groups, name)
	switch cgroups.Mode() {
	case cgroups.Legacy, cgroups.Hybrid:
		made, err := cgroup1.New(cgroup1.StaticPath(path), &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &most}}, memoryAlone)
		if err == nil && len(made.Subsystems()) == 0 {
			err = xerrors.New("they have no memory controller")
		}
		return first{made}, err
	case cgroups.Unified:
		made, err := cgroup2.NewManager("/sys/fs/cgroup", path, &cgroup2.Resources{Memory: &cgroup2.Memory{Max: &most}})
		return second{made}, err
	default:
		return nil, xerrors.New("the machine has none")
	}
}

var memoryAlone = cgroup1.WithHierarchy(cgroup1.SingleSubsystem(cgroup1.Default, cgroup1.Memory))

// first is a group of version 1.
type first struct{ cgroup1.Cgroup }

func (g first) add(pid int) error { return g.AddProc(uint64(pid)) }

func (g first) kills() uint64 {
	is, err := g.Stat(cgroup1.IgnoreNotExist)
	if err != nil {
		return 0
	}
	return is.MemoryOomControl.GetOomKill()
}

func (g first) remove() error { return g.Delete() }

// second is one of version 2.
type second struct{ *cgroup2.Manager }

func (g second) add(pid int) error { return g.AddProc(uint64(pid)) }

func (g second) kills() uint64 {
	is, err := g.Stat()
	if err != nil {
		return 0
	}
	return is.MemoryEvents.GetOomKill()
}

func (g second) remove() error { return g.Delete() }

// limits says why the memory of runs cannot be limited; nil: it can.
func (r *Runner) limits() error {
	if os.Geteuid() != 0 {
		return xerrors.New("the server is not root")
	}
	dir, lock, err := makeDirectory(r.Root) // for a name that nothing else has
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(dir); _ = lock.Close() }()
	made, err := newGroup(filepath.Base(dir), r.Memory.Run)
	if err != nil {
		return xerrors.Errorf("make a control group: %w", err)
	}
	return made.remove()
}

// dropGroup removes that of a run whose server was killed.
func dropGroup(name string) {
	path := filepath.Join(groups, name)
	switch cgroups.Mode() {
	case cgroups.Legacy, cgroups.Hybrid:
		if left, err := cgroup1.Load(cgroup1.StaticPath(path), memoryAlone); err == nil {
			_ = left.Delete() // one that has a process yet is empty soon, and takes next to nothing
		}
	case cgroups.Unified:
		if left, err := cgroup2.Load(path); err == nil {
			_ = left.Delete()
		}
	default:
	}
}

// gate has a command wait, before it is one, until the other end of its descriptor 3 is closed.
const gate = `read -r _ <&3; exec 3<&-; exec "$0" "$@"`

// start starts a command in the run's control group, with all that it starts.
func (r *Run) start(cmd *exec.Cmd) error {
	if r.group == nil {
		return cmd.Start()
	}
	wait, open, err := os.Pipe()
	if err != nil {
		return err
	}
	defer open.Close()
	cmd.Args = append([]string{"sh", "-c", gate, cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.ExtraFiles = "/bin/sh", []*os.File{wait}
	err = cmd.Start()
	_ = wait.Close()
	if err != nil {
		return err
	}
	if err := r.group.add(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill() // before it is what it is to be
		return errors.Join(err, cmd.Wait())
	}
	return nil
}

// kills is how often the kernel has ended a process of the run for the sake of the limit.
func (r *Run) kills() uint64 {
	if r.group == nil {
		return 0
	}
	return r.group.kills()
}
