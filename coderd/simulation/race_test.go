//go:build race

package simulation

const defaultSeeds = 6
