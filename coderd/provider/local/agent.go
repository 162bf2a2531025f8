package local

import (
	"maps"
	"os"
	"strings"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// AgentCommand is the subcommand of this binary that is the agent; the command to run under it follows a "--".
const AgentCommand = "agent"

// handOver puts what the agent needs to call the server into the directory, before that is in its place. The token is in
// a file that only its user can read, and nowhere else: not in workspace.json, no environment, no argument and no log.
func (w *workspace) handOver(d dir, callback provider.Callback) error {
	if callback.Token == "" {
		return nil
	}
	if err := os.Mkdir(d.agent(), 0o700); err != nil {
		return err
	}
	w.AgentURL, _, _ = strings.Cut(callback.CallbackURL, "/api/v1/")
	if len(callback.CABundle) > 0 {
		if err := os.WriteFile(d.authorities(), callback.CABundle, 0o600); err != nil {
			return err
		}
	}
	return writeFile(d.tokenFile(), []byte(callback.Token+"\n"), true)
}

// underAgent makes a command one that runs under the agent. The agent is this same binary, found by the link that stays
// good when the file is replaced by an upgrade.
func (w workspace) underAgent(d dir, command []string, env map[string]string) ([]string, map[string]string) {
	env = maps.Clone(env)
	env["PREWARM_AGENT_URL"] = w.AgentURL
	env["PREWARM_AGENT_TOKEN_FILE"] = d.tokenFile()
	if _, err := os.Stat(d.authorities()); err == nil {
		env["PREWARM_AGENT_CA_FILE"] = d.authorities()
	}
	return append([]string{"/proc/self/exe", AgentCommand, "--"}, command...), env
}
