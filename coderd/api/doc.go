// Package api is the server's edge: HTTP handlers, one file per resource.
//
// The way of a request:
//
//	request id -> access log -> panic to 500 -> security headers -> body limit -> route
//	           -> deadline -> who is asking (auth.Authenticator) -> may it do this at all (the operation's auth.Action)
//	           -> validation against the OpenAPI schema -> handler -> JSON, or a problem of RFC 9457
//
// Every operation is declared once: its path, the action that it is, and a handler from the typed input and the asker's
// identity to what is answered. answer declares one with a JSON body, act one without, and register streams and the rest.
// The OpenAPI document at /openapi.json is made of these declarations, so that it cannot differ from what is served; a test
// holds that each has an action and a place in the policy's matrix.
//
// Handlers read with queries/views and write through the packages that own what is written: claims, workspaces,
// templates and tokens. They return errors as they come; problem.go is the only place that turns them into statuses.
// Hints follow the commit: Nudge for a pass, Wake for the workers.
package api
