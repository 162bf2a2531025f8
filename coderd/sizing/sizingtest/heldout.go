package sizingtest

import "time"

// HeldOut are shapes of claims that come in heaps. They were committed before the work on the promise began, and nobody looked
// at what a sizer makes of them until that work was done: they are judged once, under JudgingSeeds.
var HeldOut = []Shape{
	{
		Name: "mixed-pushes", What: "pushes of 1 to 6 jobs, one in ten a matrix of 24, 30 to 40 jobs at 03:00 every night",
		Curve: [24]float64{
			2, 2, 2, 2, 2, 2, 4, 12, 40, 65, 75, 70, 50, 65, 75, 75, 60, 40, 20, 12, 8, 6, 4, 2,
		},
		Weekend: 0.1, DaySpread: 0.2, Growth: 1, Batch: 5, Sizes: []int{1, 1, 2, 2, 3, 3, 4, 4, 6, 24},
		Bursts: []Burst{{At: 3 * time.Hour, Daily: true, PerDay: 1, Least: 30, Most: 40, Over: 3 * time.Minute}},
	},
	{
		Name: "relay", What: "teams around the clock, batches of 6, growing by 2 % a day, an unannounced burst of 15 to 30 a day",
		Curve: [24]float64{
			25, 25, 25, 20, 15, 15, 20, 30, 45, 50, 50, 45, 35, 40, 45, 50, 50, 45, 35, 30, 30, 30, 25, 25,
		},
		Weekend: 0.2, DaySpread: 0.2, Growth: 1.02, Batch: 6,
		Bursts: []Burst{{At: -1, PerDay: 1, Least: 15, Most: 30, Over: 4 * time.Minute}},
	},
	{
		Name: "releases", What: "batches of 10, a run of 25 to 40 at noon and of 40 to 60 at 23:00, unannounced bursts twice a week",
		Curve: [24]float64{
			4, 4, 4, 4, 4, 5, 8, 20, 50, 75, 85, 80, 55, 70, 85, 85, 75, 50, 30, 20, 14, 10, 8, 5,
		},
		Weekend: 0.15, Holidays: 1, DaySpread: 0.25, Growth: 1, Batch: 10,
		Bursts: []Burst{
			{At: 12*time.Hour + 15*time.Minute, Jitter: 3 * time.Minute, PerDay: 1, Least: 25, Most: 40, Over: 4 * time.Minute},
			{At: 23 * time.Hour, Daily: true, PerDay: 1, Least: 40, Most: 60, Over: 4 * time.Minute},
			{At: -1, PerDay: 0.4, Least: 20, Most: 40, Over: 5 * time.Minute},
		},
	},
}
