package docker_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
)

// What runs in a container has few capabilities and gets none, also by exec; a spec asks for more, and what was applied before
// keeps what it has.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	const (
		engine = "00000000a80425fb" // what an engine gives
		own    = "00000000000004fb" // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE
	)
	for name, test := range map[string]struct {
		fields, bounding, noNew string
		old                     bool
	}{
		"applied now":          {"", own, "1", false},
		"asks for sudo":        {`, "privileges": {"new_privileges": true}`, own, "0", false},
		"asks for raw sockets": {`, "privileges": {"capabilities": ["cap_net_raw"]}`, "00000000000024fb", "1", false},
		"applied before":       {"", engine, "0", true},
		"applied before, asks": {`, "privileges": {}`, own, "1", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request("confined", `{"image": "`+e.Image(t)+`", "pull": "never"`+test.fields+`}`)
			if test.old {
				req.Defaults = 0
			}
			w := createAs(t, e, open(t, e, docker.Config{}), req)
			for _, status := range []string{w.run("cat", "/proc/self/status"), w.run("cat", "/proc/1/status")} {
				for field, want := range map[string]string{"CapBnd": test.bounding, "CapEff": test.bounding, "NoNewPrivs": test.noNew} {
					is := regexp.MustCompile(field + `:\s+(\S+)`).FindStringSubmatch(status)
					require.NotNil(t, is, status)
					require.Equal(t, want, is[1], field)
				}
			}
		})
	}
}

// A spec asks for no more than the owner permits.
func TestPrivileges_permitted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ config, privileges, wrong string }{
		"engine's":          {`{}`, `{"capabilities": ["NET_RAW", "MKNOD", "chown"], "new_privileges": true}`, ""},
		"beyond":            {`{}`, `{"capabilities": ["SYS_ADMIN"]}`, "privileges.capabilities[0]"},
		"all":               {`{}`, `{"capabilities": ["ALL"]}`, "privileges.capabilities[0]"},
		"permitted":         {`{"privileges": {"capabilities": ["cap_sys_admin"]}}`, `{"capabilities": ["SYS_ADMIN"]}`, ""},
		"nothing permitted": {`{"privileges": {}}`, `{"capabilities": ["NET_RAW"]}`, "privileges.capabilities[0]"},
		"no sudo":           {`{"privileges": {}}`, `{"new_privileges": true}`, "privileges.new_privileges"},
		"own":               {`{"privileges": {}}`, `{"capabilities": ["CHOWN"]}`, ""},
		"unknown":           {`{}`, `{"devices": []}`, "privileges.devices"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems := open(t, dockertest.Shared(t), parse(t, test.config)).Validate(json.RawMessage(`{"image": "a", "privileges": `+test.privileges+`}`), nil)
			if test.wrong == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.Equal(t, test.wrong, problems[0].Path)
		})
	}
	_, err := docker.ParseConfig(json.RawMessage(`{"privileges": {"capabilities": ["ALL"]}}`))
	require.ErrorContains(t, err, "not the name of a capability")
}
