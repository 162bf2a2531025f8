//go:build !race

package replay_test

// orders is how many there are.
const orders = 200
