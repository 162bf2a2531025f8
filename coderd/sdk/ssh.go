package sdk

import "context"

// SSHUser is the name to log in with as the agent's own user, whatever that is called in the workspace.
const SSHUser = "workspace"

// SSHHostKey is what a workspace proves itself by.
type SSHHostKey struct {
	HostKey string `json:"host_key" doc:"Type and key, as in a known_hosts file after the name of the host"`
}

// SSHHostKey reads the key that the SSH server of a workspace has at the moment.
func (c *Client) SSHHostKey(ctx context.Context, ref string) (SSHHostKey, error) {
	return get[SSHHostKey](ctx, c, "workspaces", ref, "ssh", "host-key")
}

// DialSSH connects to the SSH server inside a workspace that the client's user has claimed. ctx bounds only the opening.
func (c *Client) DialSSH(ctx context.Context, ref string) (*Stream, error) {
	return c.stream(ctx, "workspaces", ref, "ssh")
}
