// Package inventory holds what providers have against what the database says, and mends the difference (rules S1 to S6,
// invariant I4).
//
// One inventory, of one provider (and site, where it has sites), by the one replica that leased it:
//
//	list      the provider, under a deadline; then the rows, so that nothing young is mistaken for an orphan (S1)
//	Compare   purely: each resource and each workspace gets a verdict
//	record    the findings, how often in a row each was found, and what becomes of the breaker: one transaction
//	act       on what two inventories agree on, past a grace, while the breaker is closed
//
// If either side does not answer, the inventory does nothing. The first of two that agree may be another replica's: the
// findings are rows.
//
// What follows from a verdict:
//
//	adopt            a workspace whose resource was made but never recorded: its id is recorded (S6)
//	orphan           a resource that should not be there: deleted at the provider, if the provider is confirmed (I4)
//	unknown          a resource without a row, of a time in which nobody was at work on this database: left alone and shown
//	missing          an unclaimed workspace without a resource: quarantined, so that the pass replaces it
//	gone             a quarantined one without a resource: it takes no place at the provider any more (S4)
//	claimed-missing  a claimed one, or one that the provider takes away: an alarm, and nothing else (I2)
//	contradiction    resource and row cannot both be right: quarantined where unclaimed, shown where claimed
//	failed, stopped  an unclaimed one that the provider says is in error, or has stopped: drained, so that it is replaced (G4)
//	vanished         one whose deletion fails, though nothing is there: deleted
//	unreadable       a resource in a state that no provider should report: shown
//	drifted          a workspace that was changed at the place itself, as the last look for that found: shown
//
// The breaker opens at a mass of discrepancies that were not there before, at a listing that fails, and when too many calls
// fail; then nothing is created or deleted at the provider (the leases of jobs see to it, and passes plan none), while
// claims go on. It closes after some clean inventories in a row: complete, with nothing new amiss. See decision 0013.
//
// Between inventories, a provider may report a resource in trouble (provider.Observer). The server looks at that one resource
// (trouble.go). If it is unclaimed and lost, it is replaced at once. More than a few in a minute are left to inventories, since
// they may be a mass. What is claimed is shown at a provider that can show it (provider.Marker) after the claim (mark.go).
//
// A provider may be able to look whether a workspace still is as it was made (provider.Drifter). That takes long, so each is looked
// at by itself, as often as the provider's configuration says (drift.go), and inventories show what was found.
//
// Nothing that does not carry this installation's tag is ever touched, and nothing that belongs to another provider's
// workspace. No provider is called inside of a transaction (I8).
package inventory
