// Package external is the provider whose workspaces are made by an executable that speaks the GARM external provider
// protocol, v0.1.0 or v0.1.1: every cloud that has such a provider, unmodified.
//
// Each call is one run of the executable: what to do is in its environment, a create has its particulars on the standard
// input, the answer is JSON on the standard output, and the exit status says how it went: 0, 30 not found, 31 exists
// already, anything else a failure. The types are those of github.com/cloudbase/garm-provider-common.
//
// # Where the tags are
//
// The protocol has no field for our tags: all that comes back from a listing is a name. So the name at the provider
// carries them:
//
//	prebuild-aebagbafaydqqcikbmga2-mfzwizlgm5xw6y3vojzgk43uny
//	name of the workspace          id of the workspace, 16 bytes in base32
//
// That fits a DNS label for names of up to 36 characters. A name without a workspace's id is not ours and is never
// touched. The rest of the tags:
//
//   - The installation is GARM's controller id (GARM_CONTROLLER_ID), by which the executable tells its resources from
//     another's. Configuration can set another one.
//   - The pool (GARM_POOL_ID) follows from the installation, since List must find everything by the installation alone:
//     to the executable, one installation is one pool. Presets differ in what is sent with a create.
//   - The incarnation is always 1: the protocol cannot reset a resource.
//   - The time of creation is not known.
//
// # What real executables do, and what comes of it
//
//   - Some make a second resource of the same name, some answer 31, some 1. So Create looks before it makes, holding a
//     lock of the name that is common to this process. Between replicas the lease keeps creates of one name apart.
//   - A create that was cut off leaves something half made, which is listed as stopped. Create deletes it by name, and
//     makes it anew.
//   - A look-up that fails may mean that there is nothing. Then the listing decides; if that fails too, it is an error.
//     The same goes for a delete: what the listing does not have is deleted.
//   - A name is looked for in the listing only: for some, a look-up by name finds nothing and a delete by name does
//     nothing, and both say that all is well.
//   - Exit status 30 of a create means that its flavor or image does not exist: a permanent failure, not a missing
//     workspace.
//   - A status outside the protocol is StatusUnknown: it exists, and is not ready.
//   - An executable that hangs is ended with its whole process group, and the call returns within two seconds of that,
//     whoever may still hold its output open. Output is read up to a limit, of messages the end is kept, and what looks
//     like a secret is taken out of them.
//
// # What it costs
//
// Readiness is asked for often, and each run may be a call of a cloud that counts them. So the question is answered
// from a listing that all who ask within a few seconds share.
package external
