// Package judge says what a run under faults did wrong. It believes nobody but those outside: what clients were told,
// what the provider's journal has, when the tester froze whom. The installation is asked once, at the end, for what it
// thinks there is.
//
// What it holds to be wrong:
//
//	twice      two claims were told the same workspace (I1), or one key was told two
//	lost       an acknowledged claim is no longer so, although nobody gave it back (I7)
//	deleted    a claimed workspace went at the provider before its client asked for its release (I2)
//	unknown    a claim stands that no client was told of, after all of them asked until they were answered
//	leak       a resource is left at the provider that no live workspace has, or the other way round (I4)
//	duplicate  a workspace had two resources at a time
//	maximum    there were more workspaces than the provider's maximum (I3): in the installation's own count never, at the
//	           provider only by late creates
//
// A late create is one call that a replica had under way when it was frozen, and that took effect after it woke up. No
// provider lets anybody take back a request that is already on its way, so nothing can prevent it; what can be asked for
// is that it is gone soon. One that no freeze explains is wrong, and so is one that stays longer than the grace.
package judge
