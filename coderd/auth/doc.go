// Package auth says who is asking and what they may do.
//
// Who: a bearer token of 256 random bits, of which the database holds only the SHA-256. A token speaks for its user;
// the user's role is that of the membership in the organization asked for. Every replica looks a token up again once
// its answer is half a second old (Authenticator), so that a revocation holds everywhere within a second, without
// messages that can be lost.
//
// What: one table from action to roles (policy.go). Every operation of the API names the action that it is, and is
// refused before its handler runs where the role has no part in that action. Where the part is Own, the handler lets
// through only what belongs to the asker.
//
// The built-in identity (C16) owns prebuilds and is the actor of reconciler and workers. Its role may do nothing of the
// API, and no token can speak for it. What it may touch is held by the statements of coderd/workspaces, each of which
// names the states that it leaves: see decision 0034.
//
// The first start makes user owner and writes a token for it to the data directory (EnsureOwner). Whatever is done
// through this package is recorded in the audit log in the same transaction (Record). No secret is ever logged or
// recorded: of a token there is a hint of four characters.
package auth
