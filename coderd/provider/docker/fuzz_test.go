package docker

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

// FuzzSpec: whatever a template says, it is either refused with places in it, or means the same each time.
func FuzzSpec(f *testing.F) {
	f.Add([]byte(`{"image":"debian:12","command":["x"],"ports":[80,"53/udp"],"volumes":[{"path":"/a","volume":"v"},{"path":"/b","bind":"/etc","read_only":true},{"path":"/c","tmpfs":"1m"}],"memory":"64m","cpus":1.5,"pids":10,"networks":["none"],"health":{"command":["x"],"interval":"1s","retries":2},"readiness":{"tcp":80},"init":true}`), "size", "x y")
	f.Add([]byte(`{"image":"","user":"","pull":"x","stop_grace":"1.5s"}`), "size", "x y")
	f.Add([]byte(`null`), "size", "x y")
	f.Add([]byte(`{"environment":null}`), "size", "x y")
	f.Fuzz(func(t *testing.T, raw []byte, name, value string) {
		if !json.Valid(raw) { // what is stored is JSON
			return
		}
		parameters := map[string]string{name: value, "region-a": "b"}
		s, problems := parseSpec(Config{Binds: []Bind{{Path: "/etc"}}}, raw, parameters)
		again, _ := parseSpec(Config{Binds: []Bind{{Path: "/etc"}}}, raw, parameters)
		assert.Equal(t, s, again)
		for _, p := range problems {
			assert.NotEmpty(t, p.Message)
		}
	})
}
