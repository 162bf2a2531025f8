// Package ssh serves SSH inside a workspace for its user: shells, commands, sftp, forwarded ports, and the agent of keys.
//
// A connection is a raw stream (sdk.Stream). Who may open one is decided before, by the server, as for everything that
// the agent serves: SSH itself asks for no password and no key (method none).
//
// The host key is made when the agent starts, and is in no file. It is served over HTTP, so that a client knows it before it
// connects, and asks nobody.
//
// Commands are those of package processes, with its environment, directory and users. A connection that ends takes its
// terminals along.
package ssh
