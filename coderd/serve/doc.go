// Package serve bounds what connections cost, so that clients who send slowly, or not at all, keep nobody else waiting.
//
// A Guard is a listener and a handler:
//
//   - A body must come at a rate: 10 s, and one more for each 64 KiB. A request that is refused is not waited for: what is
//     left of its body has a quarter of a second, then its connection ends. What the client is still sending then is read
//     and thrown away for at most 5 s, so that it reads the answer and not a reset.
//   - Connections are counted, in all and by the address of the peer. Where there are too many, the one that has been
//     sending its request for longest is closed in favour of the new one. So whoever sends requests at once gets through,
//     however many others hold theirs back.
//   - Where none can be closed, since all have sent their requests and wait for answers, a further connection has one of
//     the reserved slots: health checks and agents are served there, everything else is answered 503 once its headers are
//     read. Beyond that, connections are closed.
//   - Behind a proxy all connections have one address. Those of Options.Trusted have no limit by address; requests in
//     progress are counted by the client that the proxy names instead, and that is the address in logs and audit. What
//     anybody else says of X-Forwarded-For and X-Forwarded-Proto is removed.
package serve
