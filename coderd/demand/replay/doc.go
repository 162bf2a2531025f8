// Package replay plays the recorded deliveries of forges against the whole server side in hundreds of orders. It has tests only.
//
// Each order has entities, presets and forges of its own, side by side with others, under two replicas as the server
// has them. Its forge plays the story that was recorded: it gives each job to a runner of the pool that had it then, as soon as
// there is one. What it tells of that comes late, twice, in any order, or from some point on not at all.
//
//	world_test.go   replicas, the cloud, what is inside of workspaces, and the judge at every commit
//	forge_test.go   a forge in memory, whose truth is the story as far as it was played
//	order_test.go   one order: presets, playing, telling, the end
//	replay_test.go  all of them
package replay
