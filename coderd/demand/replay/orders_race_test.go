//go:build race

package replay_test

// orders is how many there are with the race detector: enough to see what goes on at once.
const orders = 20
