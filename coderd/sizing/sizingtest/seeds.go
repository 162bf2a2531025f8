package sizingtest

// Seeds 1 to 20 are for tuning, 101 to 120 for judging.
var (
	TuningSeeds  = from(1)
	JudgingSeeds = from(101)
)

func from(first uint64) []uint64 {
	seeds := make([]uint64, 20)
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return seeds
}
