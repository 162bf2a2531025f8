package agent

import (
	"bufio"
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// systemInfo is what the agent tells of the place it runs in.
func (a *agent) systemInfo() json.RawMessage {
	host, _ := os.Hostname()
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return encode(struct {
		OS          string `json:"os"`
		Arch        string `json:"arch"`
		Kernel      string `json:"kernel,omitempty"`
		Hostname    string `json:"hostname,omitempty"`
		CPUs        int    `json:"cpus"`
		MemoryBytes int64  `json:"memory_bytes,omitempty"`
		Agent       string `json:"agent"`
	}{
		runtime.GOOS, runtime.GOARCH, strings.TrimSpace(string(kernel)), host, runtime.NumCPU(), memory(), a.Version,
	})
}

// memory is that of the machine, 0 if it cannot be told.
func memory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
