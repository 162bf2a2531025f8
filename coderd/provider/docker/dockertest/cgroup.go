package dockertest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroups are the groups of an engine's containers in all hierarchies, each after the one that it is in.
func cgroups(name string) []string {
	var groups []string
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
	for _, root := range append(roots, "/sys/fs/cgroup/"+name) {
		if !strings.HasPrefix(filepath.Base(root), folderPrefix) {
			continue
		}
		_ = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
	}
	return groups
}

// removeCgroups removes the empty groups that containers leave when they are killed from outside.
func removeCgroups(name string) {
	for _, group := range slices.Backward(cgroups(name)) {
		_ = os.Remove(group)
	}
}

// thaw lets the processes of paused containers go on to their end: a frozen one does not die of SIGKILL, and its PID
// namespace does not end before it has.
func thaw(name string) {
	for _, group := range cgroups(name) {
		// Where there is no such file, there is nothing to thaw: neither may be created.
		for file, thawed := range map[string]string{"freezer.state": "THAWED", "cgroup.freeze": "0"} {
			f, err := os.OpenFile(filepath.Join(group, file), os.O_WRONLY, 0)
			if err != nil {
				continue
			}
			_, _ = f.WriteString(thawed)
			_ = f.Close()
		}
	}
}
