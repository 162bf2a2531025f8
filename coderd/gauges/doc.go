// Package gauges tells what is so now: the counts of rule C3 for every preset, what passes want to create and delete,
// who waits, what is paused, and for how long no pass succeeded. What happens is counted where it happens.
//
// The database knows all of it: passes store their counts with each status. A scrape reads one snapshot of a few cheap
// statements, whose rows are presets, pauses and open jobs, never workspaces; what was read is good for some seconds, so
// that any number of scrapers cost what one does. Claimed workspaces are counted apart and rarely, since that count is as
// large as the fleet. Every replica tells the same: take the maximum over them, never the sum.
package gauges
