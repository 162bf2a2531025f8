// Package ports connects to TCP ports inside a workspace for its user, and serves that over HTTP: a part of the workspace's end of
// the data plane. It knows no server and no token: a caller that reaches its handler may connect to anything that listens.
//
// A port is reached by the loopback addresses, IPv4 first. What listens only on another address is not reached.
package ports
