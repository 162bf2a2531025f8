// Package sizing says how large a pool should be. Claim history goes in, a recommendation comes out: no context, clock,
// logger or SQL comes near it, so that the same history always gives the same size, and four weeks are replayed in a
// fraction of a second.
//
// # Models
//
// HitRate and SizeFor are for claims that come singly at a known rate: Poisson where a miss waits for the next prebuild,
// Erlang B where it goes cold. They need the rate and the provision time, and no more; what they do not know is bursts.
//
// # Autosize
//
// Step is for claims as they come. In a pool that refills at once, a claim hits if fewer claims than the pool's size came
// within one provision time before it. So the size now must cover what will be claimed in the next provision time (and until
// the next step), which it takes to be the larger of
//
//   - the forecast: the same time of the same day in up to four past weeks. Their claims, counted from a quarter of an hour
//     before to a quarter of an hour after (where little comes, on other days that are as busy, and up to an hour), give a
//     gamma belief about the rate of batches. Before it, half a batch is believed in the time in which the pool has one on
//     average. Claims come in batches of a geometric number, whose mean is learnt (Spread) and taken to be larger by a part of its
//     standard error. As busy as today is beside these days, so much is expected. What most of these weeks had within a short
//     time, a stand-up or a nightly run, is a burst: as many as the largest of them and of other days, and a little more, from
//     five minutes earlier to five minutes later. While less than a week is known, past days stand in for past weeks;
//   - the forecast and by how much the last half hour was above what past weeks had then, less what chance makes of such a
//     difference: days that are not like last week's.
//
// The target is for all claims together, and is reached with the fewest prebuilds where the last of them saves as many misses
// at any time: at busy times fewer may miss, at quiet times more (estimator.covering; docs/decisions/0022).
//
// Both are multiplied by the boost, the feedback: each miss raises its logarithm by gain x target, each hit lowers it by
// gain x (1 - target), both divided by the mean batch. So it rests where the share of misses is what the target allows, whatever
// the models got wrong (bursts that nobody announced, above all). It fades over some thousand claims, because what was missed before the models
// knew better says little.
//
// A size grows at once and shrinks slowly, by half in ten minutes; but what a burst needed ends with it. It stays within
// minimum and maximum.
//
// # Replay
//
// World.Replay plays claims against sizes. It judges the sizer (judge_test.go, docs/SIZING.md) and answers what another size
// would have done to a pool (`prewarm preset replay`).
package sizing
