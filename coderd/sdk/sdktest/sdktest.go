// Package sdktest keeps tests that ask servers apart.
package sdktest

import "net/http"

// OwnConnections gives http.DefaultClient, by which a Client asks, connections of its own. A server of httptest that closes closes all
// idle ones of http.DefaultTransport, and among them one over which another test is being answered just now: one whose answer has no
// body is idle a moment before it is returned.
func OwnConnections() {
	http.DefaultClient = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
}
