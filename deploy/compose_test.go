package deploy_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type service struct {
	Image       string            `yaml:"image"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Secrets     []string          `yaml:"secrets"`
	Volumes     []string          `yaml:"volumes"`
	Ports       []string          `yaml:"ports"`
	StopGrace   string            `yaml:"stop_grace_period"`
	DependsOn   any               `yaml:"depends_on"`
}

type compose struct {
	Services map[string]service           `yaml:"services"`
	Secrets  map[string]map[string]string `yaml:"secrets"`
	Volumes  map[string]any               `yaml:"volumes"`
}

// What can be said of the compose file without an engine: everything it names is there, images have a version, no
// replica shares a folder with another, and each has the time to stop that it takes.
func TestCompose(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("compose.yaml")
	require.NoError(t, err)
	var file compose
	require.NoError(t, yaml.Unmarshal(content, &file))
	pinned := regexp.MustCompile(`^(prewarm:local|[a-z]+:\d+\.\d+(\.\d+)?(-[a-z]+)?)$`)
	folders := map[string]string{}
	replicas := 0
	for name, s := range file.Services {
		assert.Regexp(t, pinned, s.Image, name)
		for _, secret := range s.Secrets {
			assert.Contains(t, file.Secrets, secret, name)
		}
		for _, volume := range s.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if strings.HasPrefix(from, "./") {
				assert.FileExists(t, from, name)
				continue
			}
			assert.Contains(t, file.Volumes, from, name)
			assert.Empty(t, folders[from], "%s and %s share %s", name, folders[from], from)
			folders[from] = name
		}
		for _, port := range s.Ports {
			assert.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s is open to everybody: %s", name, port)
		}
		if s.Image != "prewarm:local" {
			continue
		}
		replicas++
		assert.Equal(t, name, s.Environment["PREWARM_REPLICA"])
		assert.Equal(t, file.Services["haproxy"].Environment["PREWARM_REPLICA_"+strings.TrimPrefix(name, "replica-")],
			name+":7080", "HAProxy reaches it")
		drain, err := time.ParseDuration(s.Environment["PREWARM_DRAIN"])
		require.NoError(t, err)
		grace, err := time.ParseDuration(s.StopGrace)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, grace, drain+20*time.Second, "drain, requests and jobs end before it is killed")
	}
	assert.Equal(t, 3, replicas)
}

// The settings that files here give a server are settings that it has.
func TestSettingsAreKnown(t *testing.T) {
	t.Parallel()
	known, err := os.ReadFile("../docs/cli.md") // a test of the commands holds it current
	require.NoError(t, err)
	setting := regexp.MustCompile(`PREWARM_[A-Z_]+[A-Z]\b`)
	own := []string{"PREWARM_BIND"} // of haproxy.cfg
	for _, name := range []string{"compose.yaml", "Dockerfile", "systemd/prewarm@.service"} {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		found := setting.FindAllString(string(content), -1)
		require.NotEmpty(t, found, name)
		for _, s := range found {
			if !slices.Contains(own, s) && s != "PREWARM_REPLICA" {
				assert.Contains(t, string(known), "["+s+"]", "%s gives a setting that the server does not have", name)
			}
		}
	}
}

// systemd finds nothing wrong with the units, where it is there to ask.
func TestUnits(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		missing(t, "there is no systemd-analyze here to check the units with (apt-get install systemd, dnf install systemd)")
	}
	for _, unit := range []string{"prewarm@.service", "prewarm-backup.service", "prewarm-backup.timer"} {
		out, err := exec.Command(path, "verify", "--man=no", "systemd/"+unit).CombinedOutput()
		var wrong []string
		for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
			// It also speaks of other units of this machine, and of a binary that is not installed here.
			if strings.Contains(line, "prewarm") && !strings.Contains(line, "/usr/local/bin/prewarm is not executable") {
				wrong = append(wrong, line)
			}
		}
		assert.Empty(t, wrong, "%s: %v", unit, err)
	}
}
