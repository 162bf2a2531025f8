// Package runners makes workspaces of runner presets the runners of a forge, and has what the forge says of them followed:
// registration, listings, claims and releases by jobs, unregistering (rules P5, P7, A1 to A8).
//
//	create begins     a row in forge_runners, before anything can register
//	agent asks        the forge is asked for its configuration, which is handed out once and stored nowhere
//	listing           registered, idle, active, offline, gone: as of the instant at which the listing began
//	settle            a job in progress claims its runner's workspace, a completed one releases it
//	drain             unregistered first: busy is a veto, not found is fine, another error is tried again
//
// Each entity is asked in rounds, by one replica at a time (forge_status is leased). A listing that failed says nothing, and
// nothing follows from it: what is warm stays so while a forge is away. Settle is a function of rows, run by every replica;
// who comes second finds that there is nothing left to do.
//
// The forge is never asked in a transaction (I8). What makes that safe are marks that are set before: a runner may be known to
// the forge from asked_at on, whatever came of the asking, and until removed_at.
package runners
