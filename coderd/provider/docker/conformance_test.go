package docker_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/providertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	e.Image(t)
	config := parse(t, `{"network": "none", "binds": [{"path": "/srv/cache", "read_only": true}], "limits": {"cpus": 2, "memory": "1g", "pids": 100}}`)
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		return providertest.Harness{
			Provider: open(t, e, config), Other: open(t, e, config), Foreign: open(t, e, docker.Config{Network: "none"}),
			Parameters: map[string]string{"size": "small"}, Deadline: 3 * time.Minute, CutOff: 500 * time.Millisecond, Rounds: rounds(4),
			Spec: json.RawMessage(`{"image": "prewarm.test/guest:1", "pull": "never",
				"readiness": {"command": ["/bin/guest", "id"]}, "memory": "64m", "pids": 20}`),
			Garbage: garbage,
		}
	})
}

// garbage are specs by the path that is wrong with them, where the configuration is that of TestConformance.
var garbage = map[string]json.RawMessage{
	"image":                 json.RawMessage(`{"command": ["true"]}`),
	"command":               json.RawMessage(`{"image": "a", "command": "true"}`),
	"command[1]":            json.RawMessage(`{"image": "a", "command": ["sleep", 1]}`),
	"entrypoint[0]":         json.RawMessage(`{"image": "a", "entrypoint": [""]}`),
	"environment.A":         json.RawMessage(`{"image": "a", "environment": {"A": 1}}`),
	"environment.A=B":       json.RawMessage(`{"image": "a", "environment": {"A=B": ""}}`),
	"environment.PREWARM_X": json.RawMessage(`{"image": "a", "environment": {"PREWARM_X": ""}}`),
	"working_dir":           json.RawMessage(`{"image": "a", "working_dir": "src"}`),
	"user":                  json.RawMessage(`{"image": "a", "user": 1000}`),
	"ports[0]":              json.RawMessage(`{"image": "a", "ports": [70000]}`),
	"ports":                 json.RawMessage(`{"image": "a", "ports": [80], "networks": ["none"]}`),
	"networks[0]":           json.RawMessage(`{"image": "a", "networks": ["host"]}`),
	"networks":              json.RawMessage(`{"image": "a", "networks": ["none", "none"]}`),
	"volumes[0].path":       json.RawMessage(`{"image": "a", "volumes": [{"path": "data"}]}`),
	"volumes[0]":            json.RawMessage(`{"image": "a", "volumes": [{"path": "/a", "bind": "/srv/cache", "tmpfs": "1m"}]}`),
	"volumes[0].bind":       json.RawMessage(`{"image": "a", "volumes": [{"path": "/a", "bind": "/etc"}]}`),
	"volumes[0].tmpfs":      json.RawMessage(`{"image": "a", "volumes": [{"path": "/a", "tmpfs": 5}]}`),
	"volumes[0].read_only":  json.RawMessage(`{"image": "a", "volumes": [{"path": "/a", "read_only": true}]}`),
	"volumes[0].name":       json.RawMessage(`{"image": "a", "volumes": [{"path": "/a", "name": "x"}]}`),
	"cpus":                  json.RawMessage(`{"image": "a", "cpus": 3}`),
	"memory":                json.RawMessage(`{"image": "a", "memory": "2g"}`),
	"pids":                  json.RawMessage(`{"image": "a", "pids": 101}`),
	"pull":                  json.RawMessage(`{"image": "a", "pull": "sometimes"}`),
	"health.command":        json.RawMessage(`{"image": "a", "health": {"retries": 2}}`),
	"health.interval":       json.RawMessage(`{"image": "a", "health": {"command": ["a"], "interval": 5}}`),
	"readiness":             json.RawMessage(`{"image": "a", "readiness": {"tcp": 80, "running": true}}`),
	"readiness.tcp":         json.RawMessage(`{"image": "a", "readiness": {"tcp": 0}}`),
	"readiness.healthy":     json.RawMessage(`{"image": "a", "readiness": {"healthy": false}}`),
	"readiness.http":        json.RawMessage(`{"image": "a", "readiness": {"http": "/"}}`),
	"stop_grace":            json.RawMessage(`{"image": "a", "stop_grace": "1500ms"}`),
	"init":                  json.RawMessage(`{"image": "a", "init": "yes"}`),
	"privileged":            json.RawMessage(`{"image": "a", "privileged": true}`),
}
