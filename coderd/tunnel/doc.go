// Package tunnel is the server's side of the data plane: the connections that agents dial out, and the way from any replica
// to the one that has an agent's.
//
// # Tunnels
//
// An agent opens a WebSocket with its instance token, and the replica opens streams on it (coderd/streams). Each stream is
// one HTTP connection, on which the agent is the server. So whatever can be asked inside a workspace is plain HTTP behind a
// transport. A tunnel is bound to workspace, incarnation and attempt. It is there before the claim, and nothing is sent
// through it then: who may enter is decided by coderd/api, on the row that names the tunnel.
//
// # Rows
//
// A row says which replica has the tunnel. It is written when the tunnel is made, and removed when it ends. A tunnel ends
// with the work that its token is for: the replica looks when a claim ends, by a hint, and every few seconds without one.
// With the tunnel all of its streams end. Rows of replicas that are gone are swept by the others.
//
// # Relay
//
// A replica that does not have the tunnel dials the one that does, at its --advertise-url, and keeps that connection. It is
// TLS 1.3 inside of a WebSocket, whatever the URL's scheme. Both sides prove by it that they have the database and its
// encryption keys: the certificate's key is derived from a signing key of instance tokens (instance.Service.Derive), and each
// side accepts only such keys as are not retired. A stream of a relay begins with the id of a tunnel, which the other side
// has itself or refuses. So a relay leads nowhere but into tunnels, and never further than one replica.
//
// # Drains
//
// A replica that stops asks its agents to open a tunnel elsewhere, and accepts none itself. The newest tunnel takes new
// requests. What runs through the old one goes on until the replica ends.
package tunnel
