// Package autosize keeps claim history, and sizes pools by it.
//
// Every replica wakes once a minute. The first to take the lock, if nobody has been at it for three quarters of a minute,
// does one step, in one transaction:
//
//	count    claims and provisions of the last minutes, out of claims and workspace_history, into claim_history. Buckets
//	         that may still change are counted again, so a late commit and a crash cost nothing. A claim's own statement
//	         has no part in it
//	sample   once in five minutes, what each pool looks like, into preset_samples: for charts, nothing is decided by it
//	compute  for each pool with autosize on: history in, sizing.Step, size and what it remembers out, into preset_sizes. The
//	         jobs that a forge holds back for this pool are a lower bound of the size
//
// and after its commit nudges the templates whose sizes changed. The pass reads a size beside the preset's settings, within
// their minimum and maximum; one that was not renewed for a quarter of an hour is not used, and the preset's instances are.
// So an autosizer that is stuck, or a history that is gone, leaves a pool as it was configured.
//
// Nothing is lost when a replica ends: all it has beside the tables is a cache of history, which is read anew.
package autosize
